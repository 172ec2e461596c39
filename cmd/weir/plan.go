package main

import (
	"fmt"
	"math"
	"strconv"

	"weir"
	"weir/internal/tabular"
	"weir/throttle/bloom"
)

type planCommand struct {
	Bloom planBloomCommand `cmd:"" help:"Show how much memory a Bloom limiter needs for a flood, and what the flood does to everybody else." example:"weir plan bloom --attackers 1e6"`
}

// planBloomCommand is weir plan bloom. Flags that are left out have the defaults of the configuration.
type planBloomCommand struct {
	Attackers  *int64      `xor:"size" placeholder:"N" help:"How many networks are far over their limit at the same time. Default: 100000."`
	Collateral *weir.Share `placeholder:"SHARE" help:"The share of innocent networks that may be refused during the flood. Default: 1%."`
	Burst      weir.Number `placeholder:"N" help:"How many events (or bytes, if bytes are counted) a source may have at once. A small burst takes half the memory. Default: a large one."`
	K          *int        `name:"k" placeholder:"K" help:"How many limiters each source has, 1 to 8. Default: 5."`
	Memory     *weir.Size  `xor:"size" placeholder:"SIZE" help:"Instead of --attackers: show how many attackers fit this memory, such as 16MiB, for both tables of a rotation."`
	JSON       bool        `name:"json" help:"Print the plan as JSON. Bytes are for both tables of a rotation, and for one level of prefixes."`
}

// bloomPlan is what --json prints.
type bloomPlan struct {
	bloom.Plan
	Attackers *int64 `json:"attackers,omitempty"`   // when they were asked for
	Crowd     int64  `json:"crowd"`                 // networks that can have all of their limit at the same time
	Ample     int64  `json:"ample_burst,omitempty"` // if --burst is smaller
}

func (c *planBloomCommand) Validate() error {
	_, _, err := c.plan()
	return err
}

func (c *planBloomCommand) Run(t *terminal) error {
	p, o, err := c.plan()
	if err != nil {
		return err
	}
	if c.JSON {
		return t.json(p)
	}
	t.plan(p.Plan, o)
	return nil
}

// plan works out the plan, and returns the options that it is for.
func (c *planBloomCommand) plan() (bloomPlan, bloom.Options, error) {
	o := bloom.Options{}.WithDefaults()
	// A zero that was typed counts, even where the configuration reads 0 as not set.
	set(&o.Attackers, c.Attackers)
	set(&o.Collateral, c.Collateral)
	set(&o.K, c.K)
	set(&o.Burst, &c.Burst)
	if c.Memory != nil {
		o.Attackers = 1 // until it is known how many; the other figures must make sense by themselves
	}
	var p bloomPlan
	var err error
	if p.Plan, err = bloom.Size(o.K, int64(o.Attackers), o.Collateral, int64(c.Burst)); err == nil && c.Memory != nil {
		var n int64
		p.Plan, n, err = carried(*c.Memory, o.K, o.Collateral, int64(c.Burst))
		p.Attackers = &n
		set(&o.Attackers, &n)
	}
	if err != nil {
		return p, o, fmt.Errorf("--%w", err) // the fields have the names of the flags
	}
	if p.Crowd = p.Plan.Crowd(); c.Burst != 0 {
		p.Ample = int64(o.AmpleBurst())
	}
	return p, o, nil
}

func set[F, V ~int | ~int64 | ~float64](field *F, flag *V) {
	if flag != nil {
		*field = F(*flag)
	}
}

// carried returns the plan for two tables of a given memory, and how many attackers they carry.
func carried(memory weir.Size, k int, collateral weir.Share, burst int64) (bloom.Plan, int64, error) {
	lines := int64(memory) / (2 * bloom.LineBytes)
	if lines > bloom.MaxLines {
		return bloom.Plan{}, 0, &weir.FieldError{Path: "memory",
			Msg:  fmt.Sprintf("%s are more than two tables can have", memory),
			Hint: fmt.Sprintf("up to %s", weir.Size(2*bloom.MaxLines*bloom.LineBytes))}
	}
	p := bloom.Plan{K: k, Lanes: bloom.LanesFor(k, burst), Lines: int(lines), Bytes: 2 * lines * bloom.LineBytes}
	n := int64(attackersIn(p, collateral))
	if n < 1 {
		return bloom.Plan{}, 0, &weir.FieldError{Path: "memory",
			Msg:  fmt.Sprintf("%s are not enough for a single attacker", memory),
			Hint: "write 16MiB, or allow more collateral"}
	}
	p.Collateral = bloom.Collateral(k, p.Limiters(), float64(n))
	return p, n, nil
}

// attackersIn is how many attackers a table carries with so much collateral.
func attackersIn(p bloom.Plan, collateral weir.Share) float64 {
	return bloom.Attackers(p.K, p.Limiters(), math.Pow(float64(collateral), 1/float64(p.K)))
}

// plan shows a plan to people: the answer, and what could be asked next.
func (t *terminal) plan(p bloom.Plan, o bloom.Options) {
	levels := int64(len(o.V6))
	fmt.Fprintln(t.out, t.paint(tabular.Good,
		fmt.Sprintf("%d attackers, %s of the innocent refused: k = %d, %d lines, %s",
			o.Attackers, percent(p.Collateral), p.K, p.Lines, about(p.Bytes))))
	fmt.Fprintf(t.out, `
A table has %s; there are two while the key changes. Each level of IPv6
prefixes has its own, and IPv4 shares the first: with the default of %d levels
a limiter takes %s.
`, about(p.Bytes/2), levels, about(levels*p.Bytes))
	if o.Burst == 0 {
		fmt.Fprintf(t.out, "If the burst is small, half of all this is enough: --burst shows it.\n")
	}

	fmt.Fprintf(t.out, `
When nobody attacks, all networks together get as much as %d of them may have
by their limit. If more of them use all of it, they refuse each other.
`, p.Crowd())
	if ample := o.AmpleBurst(); o.Burst != 0 && ample != 0 {
		fmt.Fprintf(t.out, "%s\n", t.paint(tabular.Bad, fmt.Sprintf(
			"A burst of %d is used up by a few visits: networks that keep to their limit refuse\n"+
				"each other. A burst of %d cures it.", o.Burst, ample)))
	}

	t.section(fmt.Sprintf("How much memory %d attackers take with another k", o.Attackers), otherK(p, o))

	t.section("With more or less memory", otherMemory(p, o))

	t.section(fmt.Sprintf("What an innocent network can expect while %d attack", o.Attackers), neighbours(p, o))
	fmt.Fprintf(t.out, `
Attackers drain some of its %d limiters, and what those would have given is
gone. Who asks for little is refused only when all are drained; who uses much
of the limit gets less of it. When the key changes (rotate: %s, unless
configured) everybody shares limiters with others.
`, p.K, o.Rotate)
}

// otherK is the memory by k.
func otherK(p bloom.Plan, o bloom.Options) *table {
	b := &table{heads: []string{"k", "lines", "memory", ""}}
	smallest, _ := bloom.Smallest(int64(o.Attackers), o.Collateral, int64(o.Burst))
	for k := 1; k <= bloom.MaxK; k++ {
		other, err := bloom.Size(k, int64(o.Attackers), o.Collateral, int64(o.Burst))
		lines, memory, mark := number(other.Lines), right(about(other.Bytes)), cell{}
		if err != nil {
			lines, memory = right("-"), right("too much")
		}
		switch {
		case k == p.K && k == smallest.K:
			mark = cell{text: "this plan, the smallest", tint: tabular.Good}
		case k == p.K:
			mark = cell{text: "this plan", tint: tabular.Good}
		case k == smallest.K:
			mark = text("the smallest")
		}
		b.row(number(k), lines, memory, mark)
	}
	return b
}

// otherMemory is what tables of a quarter to four times the memory would do.
func otherMemory(p bloom.Plan, o bloom.Options) *table {
	b := &table{heads: []string{"memory", "innocent refused", "attackers at " + o.Collateral.String(), ""}}
	for _, times := range []float64{0.25, 0.5, 1, 2, 4} {
		other := p
		if other.Lines = max(1, int(math.Ceil(float64(p.Lines)*times))); other.Lines > bloom.MaxLines {
			break
		}
		refused, attackers, mark := bloom.Collateral(p.K, other.Limiters(), float64(o.Attackers)),
			attackersIn(other, o.Collateral), cell{}
		if times == 1 {
			mark = cell{text: "this plan", tint: tabular.Good}
		}
		b.row(right(about(2*int64(other.Lines)*bloom.LineBytes)), right(percent(refused)),
			right(fmt.Sprintf("%.0f", math.Floor(attackers))), mark)
	}
	return b
}

// neighbours is what innocent networks can expect, by how much of their own limit they use.
func neighbours(p bloom.Plan, o bloom.Options) *table {
	b := &table{heads: []string{"uses of its limit", "untouched", "throttled", "refused", "served on average"}}
	for _, c := range []struct {
		name string
		use  weir.Share
	}{{"a little", 0.01}, {"half", 0.5}, {"all", 1}} {
		n := bloom.Neighbours(p.K, p.Limiters(), float64(o.Attackers), c.use)
		b.row(text(c.name), right(percent(n.Untouched)), right(percent(n.Throttled)), right(percent(n.Refused)),
			right(percent(n.Served)))
	}
	return b
}

func right(s string) cell { return cell{text: s, right: true} }

// percent is a share for people, in three digits at most where that says enough.
func percent(share float64) string {
	digits := 3
	if share > 0.99 && share < 1 {
		digits = 4 // what is missing to all is what matters
	}
	n, _ := strconv.ParseFloat(strconv.FormatFloat(100*share, 'g', digits, 64), 64)
	return strconv.FormatFloat(n, 'f', -1, 64) + "%"
}

// about is a size for people who do not want to know it to the byte.
func about(n int64) string {
	unit, size := "KiB", float64(n)/(1<<10)
	for _, larger := range []string{"MiB", "GiB"} {
		if size >= 1000 {
			unit, size = larger, size/1024
		}
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}
