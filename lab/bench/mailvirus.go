//go:build linux

package main

import (
	"fmt"
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
				[]value{most(float64(row.ReferencePassed[1]), float64(worst.Passed), "%.0f"),
					most(row.ReferenceStopped[1]+60/row.Rate, worst.StoppedAfter, "%.1f s")}, ""})
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
	same := value{"the same", "the same", err == nil}
	if err != nil {
		same.text = "others"
		fmt.Fprintf(os.Stderr, "M5: %s", out)
	}
	return append(figures,
		figure{"a mail log that is made up: mails delayed, stops and delays against those written down", []value{same}, ""})
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
		stops   float64
	}{{4.80, 39}, {2.96, 38}, {1.69, 36}} {
		got := r.Study().Sweeps[0].Points[i]
		figures = append(figures,
			figure{fmt.Sprintf("real mail log, %d mails, working set %s: mails delayed, stops", got.Mails, got.Value),
				[]value{within(want.delayed-0.1, want.delayed+0.1, 100*got.DelayedShare, "%.2f %%"),
					within(want.stops-1, want.stops+1, float64(got.Stops), "%.0f stops")}, ""})
	}
	return figures
}
