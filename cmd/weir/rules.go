package main

import (
	"weir"
	"weir/console"
	"weir/internal/tabular"
)

// rules is a table of limits and how much is left of them.
type rules struct{ table }

func ruleTable() *rules {
	return &rules{table{heads: []string{"throttle", "rule", "left", "limit", "unit", "per", "room again"}}}
}

func (r *rules) add(throttle string, all []console.Rule) {
	for _, rule := range all {
		left, limit, unit := number(rule.Remaining), number(rule.Limit), rule.Unit
		if unit == "bytes" {
			left.text, limit.text, unit = weir.Size(rule.Remaining).String(), weir.Size(rule.Limit).String(), ""
		}
		if rule.Remaining == 0 {
			left.tint = tabular.Bad
		}
		reset := ""
		if !rule.Reset.IsZero() {
			reset = rule.Reset.Local().Format("2006-01-02 15:04:05.000")
		}
		r.row(text(throttle), text(rule.Rule), left, limit, text(unit), text(rule.Per), text(reset))
	}
}
