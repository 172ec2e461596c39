package simulate

import (
	"math"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/internal/plot"
	"weir/internal/tabular"
)

// nobody stands in place of a figure that is no number.
const nobody = "–"

func count(n int) string { return tabular.Grouped(int64(n)) }

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return count(n) + " " + what
}

// whole writes an estimate as the number of people that it is of.
func whole(v float64) string {
	if !plot.Finite(v) {
		return nobody
	}
	return count(int(math.Round(v)))
}

// decimal writes a figure in three digits.
func decimal(v float64) string {
	switch {
	case !plot.Finite(v):
		return nobody
	case math.Abs(v) >= 100:
		return whole(v)
	}
	text := strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(math.Max(math.Abs(v), 0.001))))), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}

// share writes a share of something in percent.
func share(v float64) string {
	if !plot.Finite(v) {
		return nobody
	}
	return weir.Share(v).Rounded().String()
}

func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// span writes a number of seconds, as exact as anybody wants it: 1m30s, those under ten with a digit more, those under
// one in milliseconds, and those over an hour in minutes.
func span(seconds float64) string {
	exact := time.Minute
	switch size := math.Abs(seconds); {
	case !plot.Finite(seconds):
		return nobody
	case size < 1:
		exact = time.Millisecond
	case size < 10:
		exact = 100 * time.Millisecond
	case size < 3600:
		exact = time.Second
	case size >= 48*3600:
		return decimal(math.Round(seconds/8640)/10) + "d"
	}
	return weir.Duration(math.Round(seconds/exact.Seconds()) * float64(exact)).String()
}

// spell writes a number of seconds in a sentence.
func spell(seconds float64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"hour", 3600}, {"minute", 60}, {"second", 1}} {
		if n := seconds / unit.size; plot.Finite(n) && n >= 1 && n < 100 && n == math.Trunc(n) {
			return plural(int(n), unit.name)
		}
	}
	return span(seconds)
}

// inMonths writes a number of months, of days where it is small, or of years where it is large.
func inMonths(n float64) string {
	switch {
	case n < 2:
		return plural(max(1, int(math.Round(n*30))), "day")
	case n >= 24:
		return whole(n/12) + " years"
	}
	return decimal(math.Round(n*10)/10) + " months"
}

// short cuts a name that is too long for a picture. The table has it in full.
func short(name string) string {
	const most = 16
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}

// Between writes a range of figures, or one where both are the same.
func Between(from, to string) string {
	if from == to {
		return from
	}
	return from + " – " + to
}

func stoppedText(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return span(seconds)
}
