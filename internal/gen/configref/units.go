package main

import (
	"net/netip"
	"reflect"

	"weir"
	"weir/throttle/quota"
	"weir/throttle/reach"
	"weir/throttle/stamp"
)

// A unit is a value that people write as text.
type unit struct {
	t        reflect.Type
	name     string
	plural   string
	doc      string
	examples []string
	pattern  string // of what is written, for editors; the reader knows more
	number   numbers
}

// numbers says which values YAML may take for a number.
type numbers uint8

const (
	noNumber numbers = iota
	zeroOnly         // anything else needs a unit
	anyNumber
)

const duration = `([0-9]+(\.[0-9]*)?(w|d|h|m|s|ms|us|µs|ns))+`

const counted = `[0-9][0-9_]*(\.[0-9]*)?([eE]\+?[0-9]+|[kKMGT])?`

var units = []unit{
	{reflect.TypeFor[weir.Duration](), "duration", "durations",
		"A length of time, with its unit: ms, s, m, h, d (24 hours), w (7 days).",
		[]string{"200ms", "5s", "1m30s", "12h", "7d"}, `^(0|` + duration + `)$`, zeroOnly},
	{reflect.TypeFor[weir.Period](), "period", "periods",
		"A stretch of time that repeats: a duration, or a day, week (from Monday), month or year of the calendar.",
		[]string{"1s", "5m", "12h", "day", "month"}, `^(day|week|month|year|` + duration + `)$`, noNumber},
	{reflect.TypeFor[weir.Rate](), "rate", "rates", "So many per time; a size where bytes are counted.",
		[]string{"100/s", "5/m", "1000/h", "20/d", "3/10s", "1e6/s", "10MB/s"},
		`^(` + counted + `|[0-9]*\.?[0-9]* *([KMGT]i?|k)?B) */ *(` + duration + `|[a-zµ]+)$`, noNumber},
	{reflect.TypeFor[weir.Size](), "size", "sizes",
		"A number of bytes. KB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB of 1024.",
		[]string{"512B", "64KiB", "10MB", "1.5GiB"}, `^(0|[0-9]*\.?[0-9]* *([KMGT]i?|k)?B)$`, zeroOnly},
	{reflect.TypeFor[weir.Share](), "share", "shares", "A part of a whole, in percent.",
		[]string{"10%", "0.5%", "200%"}, `^(0|[0-9]*\.?[0-9]* *%)$`, zeroOnly},
	{reflect.TypeFor[quota.Amount](), "amount", "amounts", "A number of requests, or a size where bytes are counted.",
		[]string{"5", "100000", "1e6", "10MB"}, `^(` + counted + `|[0-9]*\.?[0-9]* *([KMGT]i?|k)?B)$`, anyNumber},
	{reflect.TypeFor[weir.Number](), "number", "numbers", "A whole number, or a size where bytes are counted.",
		[]string{"200", "1000000", "1e6", "64KiB"}, `^(` + counted + `|[0-9]*\.?[0-9]* *([KMGT]i?|k)?B)$`, anyNumber},
	{reflect.TypeFor[stamp.Work](), "work", "works",
		"An amount of computing: so many basic operations of the puzzle, or a power of two of them.",
		[]string{"16 bits", "16.5 bits", "65536"}, `^([0-9]+|[0-9]+(\.[0-9]*)? *bits?)$`, anyNumber},
	{reflect.TypeFor[stamp.Algorithm](), "algorithm", "algorithms", "A kind of puzzle.",
		[]string{"sha256-k", "eqs60", "dlog", "dlog-classic"}, `^(sha256-k|dlog|dlog-classic|eqs60)$`, noNumber},
	{reflect.TypeFor[reach.Window](), "window", "windows", "A stretch of time up to now.",
		[]string{"hour", "day", "week"}, `^(hour|day|week|1h|24h|1d|7d|1w)$`, noNumber},
	{reflect.TypeFor[reach.Threshold](), "threshold", "thresholds", "From how many on: dynamic, a share, or a number.",
		[]string{"dynamic", "200%", "100"}, `^(dynamic|[0-9]+|[0-9]*\.?[0-9]* *%)$`, anyNumber},
	{reflect.TypeFor[reach.Times](), "factor", "factors", "How many times as much.", []string{"2", "1.5"},
		`^([0-9]+\.?[0-9]*|\.[0-9]+)$`, anyNumber},
	{reflect.TypeFor[netip.Prefix](), "network", "networks", "A network of IPv4 or IPv6, or a single address.",
		[]string{"10.0.0.0/8", "192.0.2.10", "2001:db8::/32"}, `^[0-9a-fA-F.:]+(/[0-9]{1,3})?$`, noNumber},
}

func unitOf(t reflect.Type) *unit {
	for i := range units {
		if units[i].t == t {
			return &units[i]
		}
	}
	return nil
}
