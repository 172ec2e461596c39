package grpcserve

import (
	"math"
	"time"
)

// parseTimeout reads grpc-timeout: up to eight digits, and a unit.
func parseTimeout(text string) (time.Duration, bool) {
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	var unit time.Duration
	switch text[len(text)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	var n time.Duration
	for _, c := range []byte(text[:len(text)-1]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + time.Duration(c-'0')
	}
	if n > math.MaxInt64/unit {
		return math.MaxInt64, true
	}
	return n * unit, true
}
