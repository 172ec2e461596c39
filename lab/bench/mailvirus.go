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

// virusTable is M4: how many mails of a virus pass that writes to somebody new each time, and when it is stopped, in
// the worst phase of the user's clock, whether a mail of the user has just spent the slack or not.
func virusTable(*trial) (figures []figure) {
	for _, row := range simulate.VirusTable(simulate.DocumentParams()) {
		worst := row.Ours.Worst
		figures = append(figures,
			figure{fmt.Sprintf("virus of %.0f mails a minute, each to somebody new: passed / stopped after, in the "+
				"worst phase", row.Rate),
				fmt.Sprintf("≤ %d / ≤ %.1f s", row.ReferencePassed[1], row.ReferenceStopped[1]+60/row.Rate),
				fmt.Sprintf("%d / %.1f s", worst.Passed, worst.StoppedAfter), row.Kept})
	}
	return figures
}

// mailLog is M5: what the throttle would have done to a real mail log, in the folder that WEIR_DATA names, and whether
// it does the same as always to a generated log.
func mailLog(*trial) (figures []figure) {
	if folder := os.Getenv("WEIR_DATA"); folder == "" {
		fmt.Fprintln(os.Stderr, "M5: the real log is left out: WEIR_DATA names no folder with mail-eu.csv")
	} else {
		figures = realLog(filepath.Join(folder, "mail-eu.csv"))
	}
	out, err := exec.Command("go", "test", "-count=1", "-run", "^TestGeneratedLog$", "./lab/simulate").CombinedOutput()
	same := "the same"
	if err != nil {
		same = "others"
		fmt.Fprintf(os.Stderr, "M5: %s", out)
	}
	return append(figures,
		figure{"a mail log that is made up: mails delayed, stops and delays against those written down", "the same",
			same, err == nil})
}

// realLog replays a log, as weir simulate mail does.
func realLog(path string) (figures []figure) {
	log := try(simulate.OpenLog([]string{path}, simulate.LogOptions{}))
	defer log.Close()
	r := try(simulate.NewReplay(simulate.ReplayOptions{Params: simulate.DocumentParams(),
		Sweeps: []simulate.SweepSpec{try(simulate.ParseSweep("working_set=0,1,5"))}}))
	defer r.Close()
	for e, err := range log.Entries() {
		check(err)
		check(r.Add(e))
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
	return figures
}
