//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A figure is a line of the table: what was measured, what came out, and what that is made of.
type figure struct {
	what   string
	values []value
	detail string
}

// A value is one number of a figure, with its unit. Without a target it is for comparison.
type value struct {
	text   string
	target string
	met    bool
}

// least is a value that must not be below its target. Both are written by the format, which has the unit.
func least(target, got float64, format string) value {
	return value{fmt.Sprintf(format, got), "≥ " + plainly(format, target), got >= target}
}

// most is a value that must not be above its target.
func most(target, got float64, format string) value {
	return value{fmt.Sprintf(format, got), "≤ " + plainly(format, target), got <= target}
}

// within is a value between two targets.
func within(low, high, got float64, format string) value {
	target := plainly(format, low) + " to " + plainly(format, high)
	return value{fmt.Sprintf(format, got), target, low <= got && got <= high}
}

// none is a number of things that must not be.
func none(got int) value { return value{fmt.Sprint(got), "0", got == 0} }

// beside is a value for comparison.
func beside(got float64, format string) value { return value{text: fmt.Sprintf(format, got)} }

var verb = regexp.MustCompile(`%[+.0-9]*f`)

// plainly writes a target by the format of its value, without zeros behind the point.
func plainly(format string, target float64) string {
	return fmt.Sprintf(verb.ReplaceAllString(format, "%g"), target)
}

func (f *figure) target() string {
	var all []string
	for _, v := range f.values {
		if v.target != "" {
			all = append(all, v.target)
		}
	}
	if all == nil {
		return "–"
	}
	return strings.Join(all, ", ")
}

func (f *figure) got() string {
	var all []string
	for _, v := range f.values {
		all = append(all, v.text)
	}
	got := strings.Join(all, ", ")
	if f.detail != "" {
		got += " (" + strings.TrimPrefix(f.detail, ", ") + ")"
	}
	return got
}

func (f *figure) verdict() string {
	verdict := "–"
	for _, v := range f.values {
		switch {
		case v.target != "" && !v.met:
			return "**no**"
		case v.target != "":
			verdict = "yes"
		}
	}
	return verdict
}
