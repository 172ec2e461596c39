//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"

	"weir/lab/simulate"
)

// virusTable is M4: how many mails of a virus pass, which writes to somebody new each time, and when it is stopped, in
// the worst of all phases of the user's clock, whether a mail of their own has just spent the slack or not.
func virusTable(options) ([]figure, error) {
	var figures []figure
	for _, row := range simulate.VirusTable(simulate.DocumentParams()) {
		worst := row.Ours.Worst
		figures = append(figures,
			figure{fmt.Sprintf("virus of %.0f mails a minute, each to somebody new: passed / stopped after, in the "+
				"worst phase", row.Rate),
				fmt.Sprintf("≤ %d / ≤ %.1f s", row.ReferencePassed[1], row.ReferenceStopped[1]+60/row.Rate),
				fmt.Sprintf("%d / %.1f s", worst.Passed, worst.StoppedAfter), row.Kept})
	}
	return figures, nil
}

// mailLog is M5: what the throttle would have done to a real mail log, in the folder that WEIR_DATA names, and whether
// it does to one that is made up what it always did.
func mailLog(options) ([]figure, error) {
	var figures []figure
	var err error
	if folder := os.Getenv("WEIR_DATA"); folder == "" {
		fmt.Fprintln(os.Stderr, "M5: the real log is left out: WEIR_DATA names no folder with mail-eu.csv")
	} else if figures, err = realLog(filepath.Join(folder, "mail-eu.csv")); err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "test", "-count=1", "-run", "^TestGeneratedLog$", "./lab/simulate").CombinedOutput()
	same := "the same"
	if err != nil {
		same = "others"
		fmt.Fprintf(os.Stderr, "M5: %s", out)
	}
	return append(figures,
		figure{"a mail log that is made up: mails delayed, stops and delays against those written down", "the same",
			same, err == nil}), nil
}

// realLog holds a log against the throttle, as weir simulate mail does.
func realLog(path string) (figures []figure, err error) {
	log, err := simulate.OpenLog([]string{path}, simulate.LogOptions{})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	sweep, err := simulate.ParseSweep("working_set=0,1,5")
	if err != nil {
		return nil, err
	}
	r, err := simulate.NewReplay(simulate.ReplayOptions{Params: simulate.DocumentParams(),
		Sweeps: []simulate.SweepSpec{sweep}})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for e, err := range log.Entries() {
		if err == nil {
			err = r.Add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	for i, want := range []struct {
		delayed float64 // percent of the mails, by the reference model
		stops   int
	}{{4.80, 39}, {2.96, 38}, {1.69, 36}} {
		got := r.Study().Sweeps[0].Points[i]
		figures = append(figures,
			figure{fmt.Sprintf("real mail log, %d mails, working set %s: mails delayed, stops", got.Mails, got.Value),
				fmt.Sprintf("%.2f %% ± 0.1, %d ± 1", want.delayed, want.stops),
				fmt.Sprintf("%.2f %%, %d", 100*got.DelayedShare, got.Stops),
				math.Abs(100*got.DelayedShare-want.delayed) <= 0.1 && got.Stops >= want.stops-1 &&
					got.Stops <= want.stops+1})
	}
	return figures, nil
}
