//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// peopleUnderSYNs is B9: people connect while SYNs of few networks come at a fixed rate, with the limiter in shadow
// and enforced. The networks are namespaces, which only tests make, so the benchmark of gate/xdpgate plays it.
func peopleUnderSYNs(o options) ([]figure, error) {
	args := []string{"test", "-run", "^$", "-bench", "^BenchmarkPeople$", "-benchtime", "1x", "./gate/xdpgate"}
	if o.quick {
		args = slices.Insert(args, 1, "-short")
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	rounds := peopleRounds(string(out))
	if len(rounds) == 0 {
		return nil, fmt.Errorf("%w: %s", fs.ErrPermission, out) // it was skipped
	}
	const flood = "people who connect under 20,000 SYNs/s of 40 networks, each limited to 10/min, SYN cookies %s: in " +
		"shadow / enforced"
	share := func(r peopleRound) string {
		if _, some := r["p95-ms"]; !some {
			return fmt.Sprintf("%.0f %%", r["connected-%"])
		}
		return fmt.Sprintf("%.0f %% (p95 %.1f ms)", r["connected-%"], r["p95-ms"])
	}
	var figures []figure
	for _, cookies := range []string{"off", "on"} {
		shadow, enforced := rounds["cookies="+cookies+"/shadow"], rounds["cookies="+cookies+"/enforce"]
		if shadow == nil || enforced == nil {
			return nil, fmt.Errorf("the benchmark is not complete: %s", out)
		}
		f := figure{what: fmt.Sprintf(flood, cookies), target: "100 % enforced",
			got: share(shadow) + " / " + share(enforced), met: enforced["connected-%"] == 100}
		work := figure{what: fmt.Sprintf("… for comparison, a SYN sent and taken, cookies %s: in shadow / enforced",
			cookies), target: "–", met: true,
			got: fmt.Sprintf("%.1f × (%.1f / %.1f µs)", shadow["ns/SYN"]/enforced["ns/SYN"], shadow["ns/SYN"]/1000,
				enforced["ns/SYN"]/1000)}
		figures = append(figures, f, work)
	}
	return figures, nil
}

// A peopleRound is what one part of the benchmark has measured, by unit.
type peopleRound map[string]float64

func peopleRounds(out string) map[string]peopleRound {
	all := map[string]peopleRound{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		name, ours := strings.CutPrefix(fields[0], "BenchmarkPeople/")
		if !ours {
			continue
		}
		if at := strings.LastIndexByte(name, '-'); at >= 0 { // the number of processors
			name = name[:at]
		}
		round := peopleRound{}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				round[fields[i+1]] = value
			}
		}
		all[name] = round
	}
	return all
}
