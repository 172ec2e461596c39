package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"weir/console"
	"weir/internal/tabular"
)

type statusCommand struct {
	target
	JSON bool `name:"json" help:"Print the status as JSON."`
}

func (c *statusCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.StatusCall.With(console.None{}), t.status)
}

func (t *terminal) status(s *console.Status) {
	since := "since"
	if s.ShadowAll != nil { // the limits are off for another time
		since = "and running since"
	}
	fmt.Fprintf(t.out, "weir %s, %s %s %s\n", printable(s.Version), t.state(s.State, s.NotReady, s.ShadowAll), since,
		moment(s.Started))
	t.emergency(s.ShadowAll)
	fmt.Fprintf(t.out, "configuration: %s, in effect since %s, %s", printable(s.Config.Path), moment(s.Config.Loaded),
		count(int(s.Config.Reloads), "reload"))
	if s.Config.Failed > 0 {
		fmt.Fprintf(t.out, ", %d failed", s.Config.Failed)
	}
	if s.Config.LastError != "" {
		fmt.Fprintf(t.out, "\n%s", t.paint(tabular.Bad,
			"the last reload failed and changed nothing: "+strings.ReplaceAll(s.Config.LastError, "\n", "\n  ")))
	}
	fmt.Fprintf(t.out, "\nconsole: %s, control: %s\n", cmp.Or(s.Console, "off"), printable(s.Control))
	t.invalid(s)
	fmt.Fprintln(t.out)
	t.farm(s.Farm)

	gates := table{heads: []string{"gate", "kind", "address", "upstream", "accept", "throttles", "under way",
		"waiting"}}
	for _, g := range s.Gates {
		gates.row(text(g.Gate), text(g.Kind), text(g.Address), text(g.Upstream), text(strings.Join(g.Accept, ", ")),
			text(strings.Join(g.Throttles, ", ")), number(g.InFlight), number(g.Waiting))
	}
	t.write(&gates)
	fmt.Fprintln(t.out)
	for _, g := range s.Gates {
		for _, p := range g.Unlisted {
			fmt.Fprintf(t.out, "%s: %s\n\n", printable(g.Gate), t.paint(tabular.Warn, printable(p.Advice())))
		}
	}
	t.servers(s.Gates)
	t.routes(s.Gates)
	t.capacities(console.WithRoutes(s.Gates))

	if len(s.XDP) > 0 {
		t.packets(s.XDP)
		fmt.Fprintln(t.out)
	}

	throttles := table{heads: []string{"throttle", "kind", "mode", "admitted", "delayed", "challenged", "refused",
		"errors", "accounts", "on probation", "waiting"}}
	for _, h := range s.Throttles {
		v := h.Verdicts
		if h.Shadow {
			v = h.Shadowed
		}
		accounts, probation, waiting := cell{right: true}, cell{right: true}, cell{right: true}
		if h.Table != nil {
			accounts, probation, waiting = number(h.Accounts), number(h.Probation), number(h.Waiting)
		}
		throttles.row(text(h.Throttle), text(h.Kind), mode(h.Shadow), number(v["admit"]), number(v["wait"]),
			number(v["challenge"]), number(v["refuse"]), number(h.Errors), accounts, probation, waiting)
	}
	t.write(&throttles)

	blooms := table{heads: []string{"bloom limiter", "innocent refused", "over their limit", "drained", "memory",
		"rotations"}}
	for _, h := range s.Throttles {
		if b := h.Bloom; b != nil {
			blooms.row(text(h.Throttle), share(b.Collateral), number(b.Attackers), share(b.Drained), size(b.Bytes),
				number(b.Rotations))
		}
	}
	if len(blooms.rows) > 0 {
		fmt.Fprintln(t.out)
		t.write(&blooms)
	}
	t.stamps(s.Throttles)
	t.mail(s.Mail)
}

// servers shows the servers behind gates that have several, or one that is not healthy.
func (t *terminal) servers(gates []console.GateStatus) {
	rows := table{heads: []string{"server", "gate", "routes", "health", "under way", "idle", "requests", "failures"}}
	for _, g := range gates {
		if len(g.Servers) == 1 && g.Servers[0].Healthy {
			continue
		}
		for _, s := range g.Servers {
			health := cell{text: "unhealthy", tint: tabular.Bad}
			if s.Healthy {
				health = text("healthy")
			}
			rows.row(text(s.Server), text(g.Gate), text(cmp.Or(s.For(), "all")), health, number(s.InFlight),
				number(s.Idle), number(s.Requests), number(s.Failures))
		}
	}
	if len(rows.rows) > 0 {
		t.write(&rows)
		fmt.Fprintln(t.out)
	}
}

// routes shows where the requests of gates with several sites or services go.
func (t *terminal) routes(gates []console.GateStatus) {
	rows := table{heads: []string{"route", "of", "for", "to", "throttles", "admitted", "delayed", "challenged", "refused",
		"failed"}}
	for _, g := range gates {
		for _, r := range g.Routes {
			v := r.Verdicts
			rows.row(text(r.Route), text(g.Gate), text(r.For()), text(r.To()), text(strings.Join(r.Throttles, ", ")),
				number(v["admit"]), number(v["wait"]), number(v["challenge"]), number(v["refuse"]), number(r.Failed))
		}
	}
	if len(rows.rows) > 0 {
		t.write(&rows)
		fmt.Fprintln(t.out)
	}
}

func (t *terminal) capacities(gates []console.GateStatus) {
	rows := table{heads: []string{"capacity of", "in use", "of", "load", "longest wait", "stamped", "pool",
		"in line", "turned away", "mode"}}
	for _, g := range gates {
		if c := g.Capacity; c != nil {
			of := number(c.Concurrent)
			if c.Here != 0 { // in a farm
				of.text = fmt.Sprintf("%d (farm %d)", c.Here, c.Concurrent)
			}
			rows.row(text(g.Gate), number(c.InUse), of,
				cell{text: fmt.Sprintf("%.0f%%", 100*c.Load), right: true},
				cell{text: fmt.Sprintf("%.0f ms", max(c.Longest["stamped"], c.Longest["pool"])), right: true},
				number(c.Stamped), number(c.Pool), number(c.InLine), number(c.TurnedAway), mode(c.Shadow))
		}
	}
	if len(rows.rows) > 0 {
		t.write(&rows)
		fmt.Fprintln(t.out)
	}
}

func (t *terminal) stamps(all []console.ThrottleStatus) {
	rows := table{heads: []string{"stamps", "algorithm", "work asked", "asked", "paid", "from the pool", "free",
		"forged", "replayed", "not paying"}}
	for _, h := range all {
		if s := h.Stamp; s != nil {
			asked := text("nothing")
			if most := s.Most(); most > 0 {
				asked = number(most)
			}
			rows.row(text(h.Throttle), text(s.Algorithm), asked, number(s.Challenged), number(s.Paid),
				number(s.Called+s.Held), number(s.Free), number(s.Forged), number(s.Replayed), number(s.NotPaying))
		}
	}
	if len(rows.rows) > 0 {
		fmt.Fprintln(t.out)
		t.write(&rows)
	}
}

func (t *terminal) packets(all []console.XDPStatus) {
	rows := table{heads: []string{"interface", "counts", "runs", "mode", "passed", "limited", "banned", "bans"}}
	for _, x := range all {
		runs := text(x.Attach)
		if x.Attach == "" {
			runs = cell{text: "not at all", tint: tabular.Bad}
		}
		rows.row(text(x.Interface), text(x.Mode), runs, mode(x.Shadow), number(x.Packets["passed"]),
			number(x.Packets["limited"]), number(x.Packets["banned"]), number(x.Bans))
	}
	t.write(&rows)
	for _, x := range all {
		if x.Error != "" {
			fmt.Fprintf(t.out, "%s: %s\n", printable(x.Interface), t.paint(tabular.Bad, printable(x.Error)))
		}
	}
}

func share(v float64) cell { return cell{text: fmt.Sprintf("%.2f%%", 100*v), right: true} }

func size(n int64) cell { return cell{text: fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)), right: true} }

func mode(shadow bool) cell {
	if shadow {
		return cell{text: "shadow", tint: tabular.Warn}
	}
	return text("enforce")
}

// moment is a time for people; empty where there is none.
func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// state is what weir does, in a word or two, and why it is not ready.
func (t *terminal) state(state, notReady string, all *console.ShadowAll) string {
	switch {
	case notReady == state: // it starts or stops
		return t.paint(tabular.Warn, state)
	case notReady != "":
		return t.paint(tabular.Warn, state+", not ready: "+printable(notReady))
	case all != nil:
		return t.paint(tabular.Bad, state+" without limits")
	}
	return t.paint(tabular.Good, state)
}

// emergency says that the emergency switch is on.
func (t *terminal) emergency(all *console.ShadowAll) {
	if all == nil {
		return
	}
	text := fmt.Sprintf("ALL THROTTLES ARE IN SHADOW since %s, by %s", moment(all.At), printable(cmp.Or(all.By, "an operator")))
	off := "weir shadow off --all"
	if all.Farm {
		text, off = text+", on all nodes", off+" --farm"
	}
	if all.Note != "" {
		text += ": " + printable(all.Note)
	}
	fmt.Fprintln(t.out, t.paint(tabular.Bad, text+" ("+off+" turns it off)"))
}
