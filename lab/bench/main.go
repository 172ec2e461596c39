//go:build linux

// Command bench measures weir beside its peers, in the same run and interleaved, and compares the ratios with their
// targets.
//
//	go run ./lab/bench                   the whole table
//	go run ./lab/bench -quick            everything once, to see that it works; the figures mean little
//	go run ./lab/bench -only Q1          one row
//	go run ./lab/bench -write            the whole table, also into lab/bench/RESULTS.md, and points for plots
//	go run ./lab/bench -only Q2 -write   one row; the others in lab/bench/RESULTS.md stay as they are
//	go run ./lab/bench -only S7,S9,S10 -algorithm eqs60   weir alone with another puzzle: the peers need no stamps
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"weir/throttle/stamp"
)

// A row is what a target of the table is measured by.
type row struct {
	id  string
	run func(*trial) []figure
}

// rows are the lines of the table of targets, in its order.
var rows = []row{
	{"B1", oneGrant},
	{"B2", twoGrants},
	{"B3", heapOfSources},
	{"B4", innocents},
	{"B5", inKernel},
	{"B6", rotation},
	{"B7", sameAnswers},
	{"B8", idleTables},
	{"B9", peopleUnderSYNs},
	{"S1", issuing},
	{"S2", refusing},
	{"S3", accepting},
	{"S4", solving},
	{"S5", luck},
	{"S6", duplicates},
	{"S7", steering},
	{"S8", logarithms},
	{"S9", underFlood},
	{"S10", afterFlood},
	{"Q1", decisions},
	{"Q1f", sharedDecisions},
	{"Q2", proxied},
	{"Q2g", growing},
	{"Q3", heldRequests},
	{"Q4", neverOver},
	{"Q5", overshoot},
	{"Q5p", farmPeers},
	{"Q5s", farmScale},
	{"Q6", exactSpeed},
	{"Q7", stalled},
	{"Q8", envoyService},
	{"M1", relaying},
	{"M1b", loggedIn},
	{"M2", killing},
	{"M3", manyUsers},
	{"M4", virusTable},
	{"M5", mailLog},
	{"M6", policyService},
	{"R1", sketchSize},
	{"R2", sketchError},
	{"R3", sketchDecision},
	{"F1", farmBan},
}

func main() {
	quick := flag.Bool("quick", false, "run everything once and briefly; the figures mean little")
	only := flag.String("only", "", "rows to run, as in Q1,Q3")
	write := flag.Bool("write", false,
		"write what was measured to lab/bench/RESULTS.md, and points for plots to lab/bench/*.csv; with -only, these rows alone")
	algorithm := stamp.SHA256K
	flag.TextVar(&algorithm, "algorithm", algorithm,
		"the puzzle of stamps in S7, S9 and S10; with another one than sha256-k, weir is run without its peers")
	flag.Parse()
	if *quick && *write {
		fmt.Fprintln(os.Stderr, "bench: figures of -quick mean little and are not written")
		os.Exit(2)
	}
	if err := run(trial{quick: *quick, write: *write, algorithm: algorithm}, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(how trial, only string) error {
	var table []string
	at := commit()
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "#\tmeasure\ttarget\tfigure\tmet")
	for _, r := range rows {
		if only != "" && !slices.Contains(strings.Split(only, ","), r.id) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s …\n", r.id)
		t := &trial{quick: how.quick, write: how.write, algorithm: how.algorithm}
		var figures []figure
		err := attempt(func() { figures = r.run(t) })
		t.end()
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", r.id, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.id, err)
		}
		for _, f := range figures {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.id, f.what, f.target(), f.got(), f.verdict())
		}
		table = append(table, lines(r.id, how.algorithm, at, figures)...)
	}
	if err := w.Flush(); err != nil || !how.write {
		return err
	}
	return writeResults(table)
}
