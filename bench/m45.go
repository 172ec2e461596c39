//go:build linux

package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/mail"
)

// documentParams are the mail throttle's parameters in the document that it is from.
func documentParams() mail.Params {
	return mail.Params{Every: time.Minute, MultiEvery: time.Minute, WorkingSet: 4, MaxSlack: 1, MaxMSlack: 15, Stop: 20, Recipients: 100, Slow: 4}
}

// virusTable is M4: how many mails of a virus pass, which writes to somebody new each time, and when it is stopped, in the worst of all phases of
// the user's clock, whether a mail of his own has just spent the slack or not.
func virusTable(options) ([]figure, error) {
	var figures []figure
	for _, c := range []struct {
		perMinute, passed int
		stopped           float64 // seconds: the reference model's upper value
	}{{455, 2, 2.9}, {109, 2, 12.1}, {60, 2, 22}, {10, 4, 144}, {5, 7, 324}, {2, 22, 1260}} {
		gap := time.Minute / time.Duration(c.perMinute)
		most, latest := 0, time.Duration(0)
		for phase := time.Duration(0); phase < time.Minute; phase += 50 * time.Millisecond {
			for _, spent := range []bool{false, true} {
				passed, stopped := outbreak(gap, phase, spent)
				most, latest = max(most, passed), max(latest, stopped)
			}
		}
		limit := c.stopped + gap.Seconds()
		figures = append(figures, figure{fmt.Sprintf("virus of %d mails a minute, each to somebody new: passed / stopped after, in the worst phase", c.perMinute),
			fmt.Sprintf("≤ %d / ≤ %.1f s", c.passed, limit), fmt.Sprintf("%d / %.1f s", most, latest.Seconds()), most <= c.passed && latest.Seconds() <= limit})
	}
	return figures, nil
}

// outbreak returns how many mails of a virus pass, and how long it takes until it is stopped.
func outbreak(gap, phase time.Duration, spent bool) (passed int, after time.Duration) {
	p, s := documentParams(), mail.State{}
	key := uint64(0)
	send := func(now time.Time) mail.Decision {
		key++
		passed += len(s.Tick(&p, now, nil))
		return s.Submit(&p, now, key, []uint64{key}, nil, nil)
	}
	send(when)
	begin := when.Add(time.Hour + phase)
	if spent {
		send(begin)
	}
	passed = 0
	for now := begin; ; now = now.Add(gap) {
		d := send(now)
		passed += d.Passed
		if d.Stopped || now.Sub(begin) > time.Hour {
			return passed, now.Sub(begin)
		}
	}
}

// mailLog is M5: what the throttle would have done to a real mail log, in the folder that WEIR_DATA names, and whether it does to one that is made
// up what it always did.
func mailLog(options) ([]figure, error) {
	folder := cmp.Or(os.Getenv("WEIR_DATA"), filepath.Join("..", "shared", "data"))
	log, err := readMailLog(filepath.Join(folder, "mail-eu.csv"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var figures []figure
	for _, c := range []struct {
		workingSet int
		delayed    float64 // percent of the mails, by the reference model
		stops      int
	}{{0, 4.80, 39}, {1, 2.96, 38}, {5, 1.69, 36}} {
		if len(log) == 0 {
			fmt.Fprintln(os.Stderr, "M5: the real log is left out: it is not in the folder that WEIR_DATA names")
			break
		}
		delayed, stops := replay(log, c.workingSet)
		share := 100 * float64(delayed) / float64(len(log))
		figures = append(figures, figure{fmt.Sprintf("real mail log, %d mails, working set %d: mails delayed, stops", len(log), c.workingSet),
			fmt.Sprintf("%.2f %% ± 0.1, %d ± 1", c.delayed, c.stops), fmt.Sprintf("%.2f %%, %d", share, stops),
			math.Abs(share-c.delayed) <= 0.1 && stops >= c.stops-1 && stops <= c.stops+1})
	}
	out, err := exec.Command("go", "test", "-count=1", "-run", "^TestGeneratedLog$", "./mail").CombinedOutput()
	same := "the same"
	if err != nil {
		same = "others"
		fmt.Fprintf(os.Stderr, "M5: %s", out)
	}
	return append(figures, figure{"a mail log that is made up: mails delayed, stops and delays against those written down", "the same", same, err == nil}), nil
}

// A logged mail is one of a log.
type logged struct {
	at   time.Time
	user string
	to   []uint64
}

func readMailLog(path string) (log []logged, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, err
	}
	seed := maphash.MakeSeed()
	for _, row := range rows[1:] {
		seconds, err := strconv.Atoi(row[0])
		if err != nil {
			return nil, err
		}
		one := logged{at: when.Add(time.Duration(seconds) * time.Second), user: row[1]}
		for to := range strings.SplitSeq(row[2], ";") {
			one.to = append(one.to, maphash.String(seed, to))
		}
		log = append(log, one)
	}
	return log, nil
}

// replay holds a log against the throttle. A stopped user releases all that is held, and goes on.
func replay(log []logged, workingSet int) (delayed, stops int) {
	p := documentParams()
	p.WorkingSet = workingSet
	users := map[string]*mail.State{}
	for i, one := range log {
		s := users[one.user]
		if s == nil {
			s = &mail.State{}
			users[one.user] = s
		}
		s.Tick(&p, one.at, nil)
		d := s.Submit(&p, one.at, uint64(i)+1, one.to, nil, nil)
		if d.Delayed > 0 {
			delayed++
		}
		if d.Stopped {
			stops++
			s.Take(func(mail.Item) bool { return true })
			s.Resume(&p, one.at, false)
		}
	}
	return delayed, stops
}
