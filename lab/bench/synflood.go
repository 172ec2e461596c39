//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// peopleUnderSYNs is B9: people connect while SYNs of few networks come at a fixed rate, with the limiter in shadow
// and enforced. The networks are namespaces, which only tests make, so the benchmark of gate/xdpgate plays it.
func peopleUnderSYNs(t *trial) (figures []figure) {
	out, err := t.goTest("./gate/xdpgate", "-run", "^$", "-bench", "^BenchmarkPeople$", "-benchtime", "1x")
	if err != nil {
		check(fmt.Errorf("%w: %s", err, out))
	}
	rounds := peopleRounds(out)
	if len(rounds) == 0 {
		check(fmt.Errorf("%w: %s", fs.ErrPermission, out)) // it was skipped
	}
	share := func(r peopleRound) string {
		if _, some := r["p95-ms"]; !some {
			return fmt.Sprintf("%.0f %%", r["connected-%"])
		}
		return fmt.Sprintf("%.0f %% (p95 %.1f ms)", r["connected-%"], r["p95-ms"])
	}
	for _, cookies := range []string{"off", "on"} {
		shadow, enforced := rounds["cookies="+cookies+"/shadow"], rounds["cookies="+cookies+"/enforce"]
		if shadow == nil || enforced == nil {
			check(fmt.Errorf("the benchmark is not complete: %s", out))
		}
		figures = append(figures,
			figure{fmt.Sprintf("people who connect under 20,000 SYNs/s of 40 networks, each limited to 10/min, SYN "+
				"cookies %s: in shadow / enforced", cookies), "100 % enforced", share(shadow) + " / " + share(enforced),
				enforced["connected-%"] == 100},
			figure{fmt.Sprintf("… for comparison, a SYN sent and taken, cookies %s: in shadow / enforced", cookies),
				"–",
				fmt.Sprintf("%.1f × (%.1f / %.1f µs)", shadow["ns/SYN"]/enforced["ns/SYN"], shadow["ns/SYN"]/1000,
					enforced["ns/SYN"]/1000), true})
	}
	return figures
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
