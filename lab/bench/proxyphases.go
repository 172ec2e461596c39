//go:build linux

package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/lab/machine"
	"weir/lab/peers"
)

// phases are the parts of a request's way through weir, in its order. The time of a sample belongs to the innermost
// function of the stack that a phase knows.
var phases = []struct {
	name   string
	known  *regexp.Regexp
	kernel string // what the kernel does for it, if much
}{
	{"read and parse the request", regexp.MustCompile(`^weir/gate/httpgate\.\(\*(session|conn|wire)\)\.` +
		`([rR]ead|parse|fill|peek|next|await|deadline)|^weir/gate/httpgate\.\(\*wire\)\.renew$`),
		"read from the client"},
	{"identify: address, account, route", regexp.MustCompile(`^weir/identify[./]|` +
		`^weir/gate/httpgate\.(\(\*exchange\)\.(identify|misfit)|newID)`), ""},
	{"ask the throttles, and account for it", regexp.MustCompile(`^weir/(policy|throttle|admission)[./]|` +
		`^weir/gate/httpgate\.\(\*exchange\)\.(judge|mayWrite|piece|pause)`), ""},
	{"make and send the request to the upstream", regexp.MustCompile(`^weir/upstream\.(\(\*conn\)\.write|appendRequest)|` +
		`^weir/gate/httpgate\.\(\*exchange\)\.(makeOnward|forwardHeaders|forward)|^weir/gate/httpgate\.\(\*onward\)`),
		"write to the upstream"},
	{"choose the upstream and a connection, keep time", regexp.MustCompile(`^weir/upstream\.(\(\*(Pool|server|watch|Call)\)|` +
		`\(\*conn\)\.(exchange|end|alive|ask)|peeker)`), ""},
	{"read and parse the upstream's answer", regexp.MustCompile(`^weir/upstream\.`), "read from the upstream"},
	{"answer the client", regexp.MustCompile(`^weir/gate/httpgate\.(\(\*reply\)|\(\*(conn|wire)\)\.[wW]rite|` +
		`\(\*exchange\)\.(respond|WriteHeader|Write|finalHeaders|copyBody|send|flush))|^weir/gate/refusal\.`),
		"write to the client"},
	{"metrics and logs", regexp.MustCompile(`^weir/(console|app|internal/logs|policy/heavy)[./]|prometheus`), ""},
	{"the gate itself: sessions and exchanges", regexp.MustCompile(`^weir/gate`), ""},
}

const (
	kernelToo  = "kernel: "
	scheduling = "Go's runtime: scheduling, timers, garbage collection"
	waking     = kernelToo + "waiting, waking and the rest"
)

// inSystemCall has the functions that are on top of a stack while the kernel works for the process.
var inSystemCall = regexp.MustCompile(`^(internal/runtime/syscall(/linux)?\.(Syscall6|EpollWait)|` +
	`syscall\.(Raw)?Syscall6?|runtime\.(futex|epollwait|usleep|madvise|write1|read|tgkill|mincore|osyield)(\.abi0)?)$`)

// timeByPhase is Q2p: what share of weir's processor time goes where while wrk asks over 64 connections, by a profile
// of weir serve itself.
func timeByPhase(t *trial) (figures []figure) {
	wrk, folder, seconds := program("wrk"), t.folder(), 20
	if t.quick {
		seconds = 1
	}
	service := t.startNginx(folder, "service", peers.NginxService, "")
	const password = "bench-profiles-password"
	console := try(machine.FreeAddress("127.0.0.1"))
	config := strings.Replace(fmt.Sprintf(growConfig, folder, service, "plans",
		fmt.Sprintf("  plans: {quota: {policies: [{name: hourly, limit: %d, period: 1h}]}}\n", unlimited)),
		`{listen: "off"}`, fmt.Sprintf(`{listen: "%s", profiles_password: %s}`, console, password), 1)
	weir := t.startWeir(folder, config)
	page := "http://" + weir.address + "/"
	askOver(t.context(), wrk, page, 64, time.Second, false)
	type asked struct{ rate, total float64 }
	ended := make(chan asked, 1)
	failed := make(chan error, 1)
	before := machine.Spent(weir.Pid)
	go func() {
		var a asked
		failed <- attempt(func() {
			a.rate, a.total = askOver(t.context(), wrk, page, 64, time.Duration(seconds+1)*time.Second, false)
		})
		ended <- a
	}()
	file := filepath.Join(folder, "cpu.pb.gz")
	err := fetchProfile(file, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", console, seconds), password)
	check(errors.Join(<-failed, err))
	a := <-ended
	perRequest := float64((machine.Spent(weir.Pid) - before).Microseconds()) / a.total
	shares := readTraces(strings.NewReader(output(exec.Command("go", "tool", "pprof", "-traces", "-unit=ms", file))))
	csv := "phase,us\n"
	for _, s := range shares {
		micros := s.share * perRequest
		csv += fmt.Sprintf("%q,%.2f\n", s.phase, micros)
		figures = append(figures, figure{"where a small request's time goes, 64 connections: " + s.phase, "–",
			fmt.Sprintf("%.2f µs of %.1f µs", micros, perRequest), true})
	}
	if t.write && !t.quick {
		check(os.WriteFile("lab/bench/proxyphases.csv", []byte(csv), 0o644))
	}
	return figures
}

func fetchProfile(file, url, password string) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth("weir", password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("no profile: %s: %s", resp.Status, body)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o600)
}

// A share is the part of the samples that belong to a phase.
type share struct {
	phase string
	share float64
}

// readTraces reads what go tool pprof -traces prints: blocks between lines of dashes, of one stack each. A block
// begins with the time and the innermost function. The shares are in the order of the phases, with the kernel's
// behind them.
func readTraces(r io.Reader) (all []share) {
	times, sum := map[string]float64{}, 0.0
	var stack []string
	var took float64
	count := func() {
		if len(stack) > 0 && took > 0 {
			times[phaseOf(stack)] += took
			sum += took
		}
		stack, took = nil, 0
	}
	begun := false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "-----") {
			count()
			begun = true
			continue
		}
		words := strings.Fields(line)
		if !begun || len(words) == 0 {
			continue
		}
		if len(stack) == 0 && len(words) > 1 {
			took, _ = strconv.ParseFloat(strings.TrimSuffix(words[0], "ms"), 64)
			words = words[1:]
		}
		stack = append(stack, words[0])
	}
	count()
	for phase, t := range times {
		all = append(all, share{phase, t / sum})
	}
	slices.SortFunc(all, func(a, b share) int { return cmp.Compare(orderOf(a.phase), orderOf(b.phase)) })
	return all
}

// phaseOf returns the phase of a stack, whose innermost function comes first. The kernel's time is apart, by what it
// was asked for: system calls to read and to write are most of it.
func phaseOf(stack []string) string {
	kernel := inSystemCall.MatchString(stack[0])
	for _, name := range stack {
		for _, p := range phases {
			if p.known.MatchString(name) {
				switch {
				case kernel && p.kernel != "":
					return kernelToo + p.kernel
				case kernel:
					return waking
				}
				return p.name
			}
		}
	}
	if kernel {
		return waking
	}
	return scheduling
}

// orderOf returns where a phase stands in the table.
func orderOf(phase string) int {
	for i, p := range phases {
		switch phase {
		case p.name:
			return i
		case kernelToo + p.kernel:
			return i + len(phases) + 1
		}
	}
	if phase == scheduling {
		return len(phases)
	}
	return 2*len(phases) + 1
}
