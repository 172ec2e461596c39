// Command golimiters measures the limits of weir/throttle/quota beside other limiters for Go programs: in one process,
// in turns, so that whatever else the machine does slows all of them. It is a module of its own: what the others need is
// no business of weir's.
//
//	go run -C lab/golimiters .              a table for people
//	go run -C lab/golimiters . -rounds 3    in less time
//	go run -C lab/golimiters . -json        for lab/bench
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// A figure is how fast a side decides in a case: the median over the rounds.
type figure struct {
	Case   string
	Side   string
	Nanos  float64 // between two decisions of the process
	Allocs float64 // for each decision
}

// A setting is what all sides are asked.
type setting struct {
	name       string
	keys       int
	perHour    int
	goroutines int
	admitted   bool // everything is; else everything but the first event
}

// plenty is more than anybody asks for within an hour. With as many a second, go-limiter v0.7.1 would refuse nearly
// everything after the first second: it adds fewer tokens than it should where there are more than 31,622 a second.
const plenty = 1_000_000_000

func settings(keys int) []setting {
	return []setting{
		{"one key", 1, plenty, 1, true},
		{fmt.Sprint(keys, " keys"), keys, plenty, 1, true},
		{fmt.Sprint(keys, " keys, two goroutines"), keys, plenty, 2, true},
		{"one key, over its limit", 1, 1, 1, false},
	}
}

func main() {
	rounds := flag.Int("rounds", 15, "how often each side is measured")
	events := flag.Int("events", 400_000, "decisions in each round")
	keys := flag.Int("keys", 100_000, "how many keys many are")
	asJSON := flag.Bool("json", false, "print the figures as JSON")
	flag.Parse()
	if err := run(*rounds, *events, *keys, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "golimiters:", err)
		os.Exit(1)
	}
}

func run(rounds, events, keys int, asJSON bool) error {
	if rounds < 1 || events < 1 || keys < 1 {
		return fmt.Errorf("rounds, events and keys are at least 1")
	}
	var all []figure
	for _, s := range settings(keys) {
		figures, err := s.measure(rounds, events)
		if err != nil {
			return err
		}
		all = append(all, figures...)
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(all)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "case\tlibrary\tns\tdecisions/s\tallocations")
	for _, f := range all {
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f M\t%.2f\n", f.Case, f.Side, f.Nanos, 1e3/f.Nanos, f.Allocs)
	}
	return w.Flush()
}

// measure plays the rounds of a setting. Every key is known before the first one.
func (s setting) measure(rounds, events int) (figures []figure, err error) {
	names := make([]string, s.keys)
	for i := range names {
		names[i] = fmt.Sprintf("account-%06d", i)
	}
	all := sides()
	allows := make([]func(string) bool, len(all))
	for i, side := range all {
		allow, end, err := side.make(s.perHour)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
		defer end()
		allows[i] = allow
		for _, name := range names {
			allow(name)
		}
		figures = append(figures, figure{Case: s.name, Side: side.name})
	}
	// Clients do not come in the order in which they came first, in which memory was given out.
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	nanos := make([][]float64, len(all))
	allocs := make([][]float64, len(all))
	for range rounds {
		for i, allow := range allows {
			took, made, refused := s.play(allow, names, events)
			if wrong := s.wrong(refused, events); wrong != "" {
				return nil, fmt.Errorf("%s, %s: %s", all[i].name, s.name, wrong)
			}
			nanos[i] = append(nanos[i], float64(took.Nanoseconds())/float64(events))
			allocs[i] = append(allocs[i], float64(made)/float64(events))
		}
	}
	for i := range figures {
		figures[i].Nanos, figures[i].Allocs = median(nanos[i]), median(allocs[i])
	}
	return figures, nil
}

// wrong says what a side should not have answered: a measurement of something else is worth nothing.
func (s setting) wrong(refused, events int) string {
	if s.admitted && refused > 0 {
		return fmt.Sprintf("%d of %d are refused", refused, events)
	}
	if admitted := events - refused; !s.admitted && admitted > 1 { // a new hour may have begun
		return fmt.Sprintf("%d of %d are admitted, where one an hour may be", admitted, events)
	}
	return ""
}

// play asks for events and returns how long that took, how often memory was allocated, and how many were refused.
func (s setting) play(allow func(string) bool, names []string, events int) (took time.Duration, made uint64, refused int) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	counts := make([]int, s.goroutines)
	var all sync.WaitGroup
	start := time.Now()
	for g := range s.goroutines {
		all.Go(func() {
			n := 0
			for i := g; i < events; i += s.goroutines {
				if !allow(names[i%len(names)]) {
					n++
				}
			}
			counts[g] = n
		})
	}
	all.Wait()
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	for _, n := range counts {
		refused += n
	}
	return took, after.Mallocs - before.Mallocs, refused
}

// median sorts the values.
func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
