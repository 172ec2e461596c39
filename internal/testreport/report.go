package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	slowest      = 10      // packages that are named
	mostLines    = 400     // of a failed test's output; its last ones
	mostSkipped  = 20      // tests that are named
	mostFailed   = 15      // tests that are named in the last lines
	mostReason   = 300     // bytes of a reason
	mostUnderWay = 5       // tests that are named with it
	mostEvent    = 4 << 20 // bytes of a line of go test
)

// An event is a line of "go test -json" (go doc test2json). ImportPath stands for Package where a build is meant.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

// A report is what is known of the tests so far.
type report struct {
	w        io.Writer
	output   map[string][]string // by package and test, until it is over
	builds   map[string][]string // what the compiler printed, by import path
	packages map[string]float64  // seconds
	tests    int                 // without the parts of a test
	skipped  []string
	failures []failure
}

type failure struct{ name, reason string }

func newReport(w io.Writer) *report {
	return &report{w: w, output: map[string][]string{}, builds: map[string][]string{}, packages: map[string]float64{}}
}

// read takes all events. What is none, such as a message of the go command, is printed as it is.
func (r *report) read(in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		var e event
		if bytes.HasPrefix(lines.Bytes(), []byte("{")) && json.Unmarshal(lines.Bytes(), &e) == nil {
			r.take(e)
		} else {
			fmt.Fprintln(r.w, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		r.failed("go test", "its output cannot be read: "+err.Error())
		_, _ = io.Copy(io.Discard, in) // else it would wait for a reader
	}
}

func (r *report) take(e event) {
	name := fullName(e)
	switch e.Action {
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "output":
		if lines := append(r.output[name], e.Output); len(lines) > 2*mostLines {
			r.output[name] = slices.Clone(lines[len(lines)-mostLines:])
		} else {
			r.output[name] = lines
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnded(e)
		} else {
			r.testEnded(e, name)
		}
		delete(r.output, name)
	}
}

func fullName(e event) string {
	if e.Test == "" {
		return e.Package
	}
	return e.Package + "." + e.Test
}

func (r *report) testEnded(e event, name string) {
	if !strings.Contains(e.Test, "/") {
		r.tests++
	}
	switch e.Action {
	case "skip":
		r.skipped = append(r.skipped, name+": "+reason(r.output[name]))
	case "fail":
		r.show("--- FAIL: "+name, r.output[name])
		// A test fails with a part of it. The part has the reason.
		inner := func(f failure) bool { return strings.HasPrefix(f.name, name+"/") }
		if why := reason(r.output[name]); why != "" || !slices.ContainsFunc(r.failures, inner) {
			r.failed(name, why)
		}
	}
}

func (r *report) packageEnded(e event) {
	r.packages[e.Package] = e.Elapsed
	if e.Action != "fail" {
		fmt.Fprintf(r.w, "ok    %6.1fs  %s\n", e.Elapsed, e.Package)
		return
	}
	fmt.Fprintf(r.w, "FAIL  %6.1fs  %s\n", e.Elapsed, e.Package)
	within := func(f failure) bool { return strings.HasPrefix(f.name, e.Package+".") }
	switch {
	case e.FailedBuild != "":
		r.show("--- FAIL: "+e.Package+" does not compile", r.builds[e.FailedBuild])
		r.failed(e.Package, reason(r.builds[e.FailedBuild]))
	case !slices.ContainsFunc(r.failures, within):
		// It ended outside of a test: TestMain, a panic, a time limit, a race at the end. What its tests had written by
		// then is all there is.
		lines := r.output[e.Package]
		var begun []string
		for _, name := range slices.Sorted(maps.Keys(r.output)) {
			if test, its := strings.CutPrefix(name, e.Package+"."); its {
				lines = append(slices.Clone(r.output[name]), lines...)
				begun = append(begun, test)
			}
		}
		r.show("--- FAIL: "+e.Package, lines)
		r.failed(e.Package, cmp.Or(reason(lines), "it ended without a word")+underWay(begun))
	}
}

// underWay names the tests that had begun when their package ended: one of them is to blame.
func underWay(tests []string) string {
	if len(tests) == 0 {
		return ""
	}
	text := " (in " + strings.Join(tests[:min(len(tests), mostUnderWay)], ", ")
	if over := len(tests) - mostUnderWay; over > 0 {
		text += fmt.Sprintf(" and %d more", over)
	}
	return text + ")"
}

// show prints the end of an output, and how much of it is left out.
func (r *report) show(title string, lines []string) {
	fmt.Fprintln(r.w, title)
	if over := len(lines) - mostLines; over > 0 {
		fmt.Fprintf(r.w, "    (%d lines before)\n", over)
		lines = lines[over:]
	}
	for _, l := range lines {
		fmt.Fprint(r.w, l)
	}
}

func (r *report) failed(name, why string) {
	r.failures = append(r.failures, failure{name, why})
}

// telling is a line that says what is wrong: of a test, of the compiler, of a program that ended badly.
var telling = regexp.MustCompile(`^\s*(\S+\.go:\d+: |\S+\.go:\d+:\d+: |panic: |fatal error: |WARNING: DATA RACE)`)

// frame is a line that go test itself writes about a test.
var frame = regexp.MustCompile(`^\s*(=== |--- |FAIL|ok\s|PASS|exit status|-test\.shuffle )`)

// access is where a race is, below its title.
var access = regexp.MustCompile(`^\s+(\S+\.go:\d+) \+0x`)

// reason returns the first line that says what is wrong, or else the last one that the test wrote.
func reason(lines []string) string {
	text := ""
	for i, l := range lines {
		l = strings.TrimRight(l, "\r\n")
		if telling.MatchString(l) {
			text = strings.TrimSpace(l)
			// A message may begin on the next line.
			if strings.HasSuffix(text, ":") && i+1 < len(lines) {
				text += " " + strings.TrimSpace(lines[i+1])
			}
			if at := slices.IndexFunc(lines[i:], access.MatchString); at > 0 && strings.HasSuffix(text, "DATA RACE") {
				text += " at " + access.FindStringSubmatch(lines[i+at])[1]
			}
			break
		}
		if !frame.MatchString(l) && strings.TrimSpace(l) != "" {
			text = strings.TrimSpace(l)
		}
	}
	if len(text) > mostReason {
		text = strings.ToValidUTF8(text[:mostReason], "") + "…"
	}
	return text
}

// end prints what the whole run was like. It reports whether all is well.
func (r *report) end(took time.Duration) bool {
	if len(r.skipped) > 0 {
		fmt.Fprintf(r.w, "\n%d skipped:\n", len(r.skipped))
		for _, s := range r.skipped[:min(len(r.skipped), mostSkipped)] {
			fmt.Fprintln(r.w, "  "+s)
		}
		if over := len(r.skipped) - mostSkipped; over > 0 {
			fmt.Fprintf(r.w, "  and %d more\n", over)
		}
	}
	fmt.Fprintf(r.w, "\nthe slowest packages:\n")
	bySeconds := func(a, b string) int {
		return cmp.Or(cmp.Compare(r.packages[b], r.packages[a]), cmp.Compare(a, b))
	}
	for _, p := range slices.SortedFunc(maps.Keys(r.packages), bySeconds)[:min(len(r.packages), slowest)] {
		fmt.Fprintf(r.w, "  %6.1fs  %s\n", r.packages[p], p)
	}
	seconds := int(took.Seconds())
	fmt.Fprintf(r.w, "\n%d tests in %d packages took %d:%02d\n", r.tests, len(r.packages), seconds/60, seconds%60)
	for _, f := range r.failures[:min(len(r.failures), mostFailed)] {
		fmt.Fprintf(r.w, "FAILED %s: %s\n", f.name, f.reason)
	}
	if over := len(r.failures) - mostFailed; over > 0 {
		fmt.Fprintf(r.w, "and %d more FAILED\n", over)
	}
	return len(r.failures) == 0
}
