package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/tabular"
)

// A target is a package whose tests are put to the test.
type target struct {
	folder string
	files  []string   // all, where none are named
	tests  [][]string // arguments of go test, the quickest first; survivors of one go on to the next
}

// targets are the packages that users rely on most: mechanisms, mail on disk, framing, identity.
var targets = []target{
	{"policy", nil, [][]string{{"./policy"}, {"./gate/authgate"}}},
	{"throttle/outbreak", nil, [][]string{{"./throttle/outbreak"}, {"./mail/spool"}}},
	{"throttle/ban", nil, [][]string{{"./throttle/ban"}, {"-run", "Ban", "./app"}}},
	{"identify/token", nil, [][]string{{"./identify/token"}, {"-run", "JWT|Token", "./gate/httpgate"}}},
	{"mail/login", nil, [][]string{{"./mail/login"}, {"-run", "Auth|Login|Guess|TLS", "./gate/smtpgate"}}},
	{"identify", nil, [][]string{{"./identify"}, {"-run", "Account|Source|Accept|Proxy", "./gate/httpgate"}}},
	{"throttle/quota", nil, [][]string{{"./throttle/quota"}, {"-run", "Quota", "./app"}}},
	{"throttle/reach", nil, [][]string{{"./throttle/reach"}, {"-run", "Reach", "./mail/spool"}}},
	{"admission", nil, [][]string{{"./admission"}, {"-run", "Room|Lane|Place|Stamp", "./gate/httpgate", "./app"}}},
	{"throttle/bloom", nil, [][]string{{"./throttle/bloom"}, {"-run", "Bloom|Door|Ration", "./gate/tcpgate", "./app"}}},
	{"throttle/stamp", nil, [][]string{{"./throttle/stamp"}, {"./throttle/stamp/payer"}, {"-run", "Stamp", "./app"}}},
	{"gate/smtpgate", []string{"wire", "command", "params", "loop", "data", "transaction", "address", "reply"},
		[][]string{{"./gate/smtpgate"}}},
	{"internal/http1", nil, [][]string{{"./internal/http1"}, {"-run", "Smuggl|Unambig|Header", "./gate/httpgate"},
		{"./upstream"}}},
	{"gate/httpgate", []string{"body", "clientbody", "fields", "wire", "request", "headers"},
		[][]string{{"-run", "Fram|Smuggl|Unambig|Header|Progress|Proxy", "./gate/httpgate"},
			{"-skip", "Browser|ACME", "./gate/httpgate"}}},
	{"upstream", []string{"body", "answer", "request"},
		[][]string{{"./upstream"}, {"-run", "Smuggl|Proxy|Stream", "./gate/httpgate"}}},
	{"mail/spool", nil, [][]string{{"./mail/spool"}, {"./gate/smtpgate"}, {"-run", "Mail", "./app"}}},
	{"store/sqlite", nil, [][]string{{"./store/sqlite"}, {"./mail/spool"}}},
}

// What became of a mutant.
const (
	killed = iota
	survived
	broken // not compiled, which is not counted
)

func main() {
	n := flag.Int("n", 255, "how many mutants, shared by all packages")
	seed := flag.Uint64("seed", 1, "which ones")
	only := flag.String("only", "", "only these packages: mail/spool,mail/login")
	match := flag.String("match", "", "only mutants that are printed with this text")
	workers := flag.Int("p", max(1, runtime.NumCPU()/2), "how many at once")
	timeout := flag.Duration("timeout", 2*time.Minute,
		"how long the tests of a package may take; a mutant that hangs is noticed")
	flag.Parse()
	if err := run(*n, *seed, *only, *match, *workers, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(n int, seed uint64, only, match string, workers int, timeout time.Duration) error {
	text, err := os.ReadFile("internal/mutants/explained.txt")
	if err != nil {
		return fmt.Errorf("%w; it is run in the root of the tree", err)
	}
	explained := explanations(string(text))
	wanted := strings.Split(only, ",")
	chosen := slices.DeleteFunc(slices.Clone(targets),
		func(t target) bool { return only != "" && !slices.Contains(wanted, t.folder) })
	if len(chosen) == 0 {
		return fmt.Errorf("no such package: %s", only)
	}
	r := &round{timeout: timeout, began: time.Now(), count: map[string][3]int{}}
	type job struct {
		target target
		mutant *mutant
	}
	jobs := make(chan job)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for j := range jobs {
				r.note(j.target, j.mutant, r.try(j.target, j.mutant))
			}
		})
	}
	for i, t := range chosen {
		mutants, err := t.mutants(seed)
		if err != nil {
			return err
		}
		mutants = slices.DeleteFunc(mutants, func(m *mutant) bool { return !strings.Contains(m.id(), match) })
		mutants = choose(mutants, (i+1)*n/len(chosen)-i*n/len(chosen))
		r.add(len(mutants))
		for _, m := range mutants {
			jobs <- job{t, m}
		}
	}
	close(jobs)
	all.Wait()
	return r.report(chosen, explained)
}

// mutants returns all mutants of a target.
func (t target) mutants(seed uint64) (all []*mutant, _ error) {
	files, err := filepath.Glob(filepath.Join(t.folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range t.files {
		if !slices.Contains(files, filepath.Join(t.folder, name+".go")) {
			return nil, fmt.Errorf("there is no %s.go in %s: say in internal/mutants which file has its code", name, t.folder)
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".go")
		if strings.HasSuffix(name, "_test") || strings.HasSuffix(name, "_other") || t.files != nil &&
			!slices.Contains(t.files, name) {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := breed(file, source, seed)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// A round counts what became of mutants.
type round struct {
	timeout time.Duration
	began   time.Time
	sound   sync.Map // the tests that pass without a mistake

	mu        sync.Mutex
	tried     int
	planned   int
	count     map[string][3]int
	survivors []*mutant
	faults    []error
}

func (r *round) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planned += n
}

// try runs the tests with a mutant in place of its file.
func (r *round) try(t target, m *mutant) int {
	folder, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return r.fault(err)
	}
	defer os.RemoveAll(folder)
	here, err := filepath.Abs(m.file)
	if err != nil {
		return r.fault(err)
	}
	there, list := filepath.Join(folder, filepath.Base(m.file)), filepath.Join(folder, "overlay.json")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{here: there}})
	if err := errors.Join(err, os.WriteFile(there, m.source, 0o600), os.WriteFile(list, overlay, 0o600)); err != nil {
		return r.fault(err)
	}
	first := beside(m.file)
	for i, tests := range slices.Concat(first, t.tests) {
		if out, err := r.test(tests, "-overlay", list); err != nil {
			if strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") {
				return broken
			}
			return r.confirm(t.tests[max(0, i-len(first))])
		}
	}
	return survived
}

var testName = regexp.MustCompile(`(?m)^func ((Test|Fuzz)\w+)\(`)

// beside returns the tests of a file's own file of tests, if it has one. Most mutants are noticed there, which takes a
// fraction of the time of all tests of the package.
func beside(file string) [][]string {
	text, _ := os.ReadFile(strings.TrimSuffix(file, ".go") + "_test.go")
	var names []string
	for _, found := range testName.FindAllSubmatch(text, -1) {
		names = append(names, string(found[1]))
	}
	if names == nil {
		return nil
	}
	return [][]string{{"-run", "^(" + strings.Join(names, "|") + ")$", "./" + filepath.Dir(file)}}
}

// confirm returns killed if the tests that noticed a mutant pass without it.
func (r *round) confirm(tests []string) int {
	once, _ := r.sound.LoadOrStore(strings.Join(tests, " "), sync.OnceValue(func() error {
		out, err := r.test(tests)
		if err != nil {
			return fmt.Errorf("go test %s fails without any mistake:\n%s", strings.Join(tests, " "), out)
		}
		return nil
	}))
	if err := once.(func() error)(); err != nil {
		return r.fault(err)
	}
	return killed
}

func (r *round) fault(err error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.faults, func(e error) bool { return e.Error() == err.Error() }) {
		r.faults = append(r.faults, err)
	}
	return broken
}

func (r *round) test(tests []string, more ...string) (string, error) {
	args := slices.Concat([]string{"test", "-vet=off", "-short", "-failfast", "-count=1", "-timeout",
		r.timeout.String()}, more, tests)
	cmd := exec.Command("go", args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WEIR_LONG=") })
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *round) note(t target, m *mutant, became int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.count[t.folder]
	c[became]++
	r.count[t.folder] = c
	r.tried++
	if became == survived {
		r.survivors = append(r.survivors, m)
		fmt.Fprintf(os.Stderr, "survived %s:%d %s: %s\n\t→ %s\n", m.file, m.line, m.function, m.before, m.after)
	}
	if r.tried%10 == 0 {
		took := time.Since(r.began).Round(time.Second)
		fmt.Fprintf(os.Stderr, "%s: %d of %d tried, %d survived, %s\n", t.folder, r.tried, r.planned, len(r.survivors),
			took)
	}
}

// report prints the table and the survivors. One that is not explained is an error.
func (r *round) report(chosen []target, explained map[string]string) error {
	table := tabular.Table{Columns: []tabular.Column{{Head: "package"}, {Head: "compiled", Right: true},
		{Head: "killed", Right: true}, {Head: "survived", Right: true}, {Head: "not compiled", Right: true}}}
	row := func(name string, c [3]int) {
		cells := []tabular.Cell{tabular.Text(name)}
		for _, n := range []int{c[killed] + c[survived], c[killed], c[survived], c[broken]} {
			cells = append(cells, tabular.Text(fmt.Sprint(n)))
		}
		table.Rows = append(table.Rows, cells)
	}
	var sum [3]int
	for _, t := range chosen {
		c := r.count[t.folder]
		row(t.folder, c)
		for i := range sum {
			sum[i] += c[i]
		}
		if c[broken] > 0 && c[killed]+c[survived] == 0 {
			r.faults = append(r.faults, fmt.Errorf("no mistake in %s compiles: do its tests?", t.folder))
		}
	}
	row("all", sum)
	fmt.Println(strings.Join(table.Lines(0, false), "\n"))
	unexplained := 0
	for _, m := range r.survivors {
		why := explained[m.id()]
		if why == "" {
			unexplained++
			why = "NOT EXPLAINED"
		}
		fmt.Printf("%s:%d: %s\n\t%s\n", m.file, m.line, m.id(), why)
	}
	if unexplained > 0 {
		r.faults = append(r.faults, fmt.Errorf("%d survivors are not explained: write a test that notices them, "+
			"or say in internal/mutants/explained.txt why none can", unexplained))
	}
	return errors.Join(r.faults...)
}

// explanations reads explained.txt: a mutant as it is printed, and below it, indented, why no test notices it. #
// begins a comment.
func explanations(text string) map[string]string {
	all := map[string]string{}
	id := ""
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " "):
			all[id] = strings.TrimSpace(all[id] + " " + trimmed)
		default:
			id = trimmed
			all[id] = ""
		}
	}
	return all
}
