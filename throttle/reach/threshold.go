package reach

import (
	"fmt"
	"strconv"
	"strings"

	"weir"
)

// A Threshold is dynamic, a share or a count. The zero value is dynamic.
type Threshold struct {
	Share weir.Share // 2 is 200%: three times as many as before
	Count int        // so many new recipients in the window
}

const dynamicWord = "dynamic"

func (t Threshold) String() string {
	switch {
	case t.Share != 0:
		return t.Share.String()
	case t.Count != 0:
		return strconv.Itoa(t.Count)
	}
	return dynamicWord
}

func (t Threshold) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads dynamic, a share or a count.
func (t *Threshold) UnmarshalText(text []byte) error { return weir.ReadText(t, text, ParseThreshold) }

// ParseThreshold reads dynamic, a share (200%) or a count (100).
func ParseThreshold(text string) (Threshold, error) {
	s := strings.TrimSpace(text)
	var t Threshold
	switch {
	case s == dynamicWord:
		return t, nil
	case strings.HasSuffix(s, "%"):
		share, err := weir.ParseShare(s)
		if err != nil {
			return t, err
		}
		t.Share = share
	default:
		count, err := strconv.Atoi(s)
		if err != nil || count < 0 {
			hint := "write dynamic, 200% or 100"
			if near := weir.Nearest(s, dynamicWord); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return t, &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a threshold", s), Hint: hint}
		}
		t.Count = count
	}
	if t == (Threshold{}) {
		return t, &weir.FieldError{Msg: "a threshold of 0 flags everybody", Hint: "write dynamic, 200% or 100"}
	}
	return t, nil
}

// Times is how many times as much: 2, or 1.5.
type Times float64

func (t Times) String() string { return strconv.FormatFloat(float64(t), 'f', -1, 64) }

func (t Times) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a number with at most one point.
func (t *Times) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "0123456789.") != "" {
		return &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a number of times", s), Hint: "write 2 or 1.5"}
	}
	if n == 0 {
		return &weir.FieldError{Msg: "0 times as much is nothing", Hint: "write 2 or 1.5"}
	}
	*t = Times(n)
	return nil
}
