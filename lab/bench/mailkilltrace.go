//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"weir/store"
	"weir/store/sqlite"
)

// traceAcknowledged sends mails to a weir whose system calls are traced, and returns what was wrong with those that
// were acknowledged too early: before the log that has the mail was synced, and where the text is in a file, before the
// file and its folder were.
func traceAcknowledged(binary, folder string, mails int) (early []string, err error) {
	strace, err := program("strace")
	if err != nil {
		return nil, err
	}
	data, file := filepath.Join(folder, "traced"), filepath.Join(folder, "trace")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	end, err := startEnd()
	if err != nil {
		return nil, err
	}
	defer end.stop()
	// -D lets weir be the child; -yy writes what descriptors stand for.
	w, err := runWeir(data, fmt.Sprintf(killConfig, data, "127.0.0.1:0", end.address), os.Stderr,
		strace, "-D", "-f", "-yy", "-s", "8192", "-e", "trace=write,pwrite64,fsync,fdatasync", "-e", "signal=none",
		"-o", file, binary)
	if err != nil {
		if out, _ := os.ReadFile(file); len(out) == 0 {
			return nil, errors.Join(errors.ErrUnsupported, err) // nobody may trace here
		}
		return nil, err
	}
	defer w.Stop()
	c, err := dialMail(w.address, "")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	chance := rand.New(rand.NewPCG(1, 1))
	type sent struct {
		subject, id string
		filed       bool
	}
	var all []sent
	for i := range mails {
		one := sent{subject: fmt.Sprintf("traced-%04d-", i), filed: i%5 == 4}
		size := 100 + chance.IntN(3000)
		if one.filed {
			size = 2 * store.MaxInline
		}
		if err := c.send("ann@example.com", "bob@example.org", signedText(one.subject, size, chance)); err != nil {
			return nil, err
		}
		_, one.id, _ = strings.Cut(string(c.last), "queued as ")
		all = append(all, one)
	}
	if err := w.emptied(); err != nil {
		return nil, err
	}
	w.Stop()
	calls, err := readTrace(file)
	if err != nil {
		return nil, err
	}
	from := 0 // after the mail before
	for _, m := range all {
		at := find(calls, from, len(calls),
			func(c *call) bool { return c.name == "write" && strings.Contains(c.args, "queued as "+m.id) })
		if at < 0 || m.id == "" {
			return nil, fmt.Errorf("%s was acknowledged, but the trace does not show it", m.subject)
		}
		if why := tooEarly(calls[from:at], calls[at].begun, m.subject, m.filed); why != "" {
			early = append(early, m.subject+" was acknowledged, and "+why)
		}
		from = at + 1
	}
	return early, nil
}

// tooEarly says what is missing among the calls before an acknowledgement.
func tooEarly(calls []call, acknowledged int, subject string, filed bool) string {
	log := sqlite.File + "-wal>"
	// synced finds a sync that began after something and was complete before something else.
	synced := func(after, before int, path *regexp.Regexp) *call {
		i := find(calls, 0, len(calls), func(c *call) bool {
			return strings.HasSuffix(c.name, "sync") && path.MatchString(c.args) && c.begun > after &&
				c.done < before && c.result == "0"
		})
		if i < 0 {
			return nil
		}
		return &calls[i]
	}
	written := find(calls, 0, len(calls), func(c *call) bool {
		return c.name == "pwrite64" && strings.Contains(c.args, log) && strings.Contains(c.args, subject)
	})
	if written < 0 {
		return "was not in the log"
	}
	row := &calls[written]
	if synced(row.done, acknowledged, regexp.MustCompile(regexp.QuoteMeta(log))) == nil {
		return "the log was not synced"
	}
	if !filed {
		return ""
	}
	in := regexp.QuoteMeta(sqlite.MailFolder)
	text := synced(-1, row.begun, regexp.MustCompile(`/`+in+`/../[^>]+>`))
	if text == nil {
		return "its file was not synced"
	}
	if synced(text.done, row.begun, regexp.MustCompile(`/`+in+`/..>`)) == nil {
		return "the folder of its file was not synced"
	}
	return ""
}

// A call is a system call in a trace, begun and done at lines of it.
type call struct {
	name, args, result string
	begun, done        int
}

func find(calls []call, from, to int, match func(*call) bool) int {
	for i := from; i < to; i++ {
		if match(&calls[i]) {
			return i
		}
	}
	return -1
}

// How strace writes a call, one that somebody else's comes in between, and its end.
var (
	traceWhole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (\S+)`)
	traceBegun   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	traceResumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (\S+)`)
)

// readTrace reads a trace, in the order in which the calls began.
func readTrace(file string) (calls []call, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	open := map[string]int{} // by thread
	in := bufio.NewReader(f)
	for line := 0; ; line++ {
		text, err := in.ReadString('\n')
		if err == io.EOF {
			return calls, nil
		}
		if err != nil {
			return nil, err
		}
		text = strings.TrimSuffix(text, "\n")
		if m := traceWhole.FindStringSubmatch(text); m != nil {
			calls = append(calls, call{m[2], m[3], m[4], line, line})
		} else if m := traceBegun.FindStringSubmatch(text); m != nil {
			open[m[1]] = len(calls)
			calls = append(calls, call{m[2], m[3], "", line, int(^uint(0) >> 1)})
		} else if m := traceResumed.FindStringSubmatch(text); m != nil {
			if i, ok := open[m[1]]; ok && calls[i].name == m[2] {
				calls[i].args += m[3]
				calls[i].result, calls[i].done = m[4], line
				delete(open, m[1])
			}
		}
	}
}
