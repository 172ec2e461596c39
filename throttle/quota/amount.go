package quota

import (
	"fmt"
	"strconv"
	"strings"

	"weir"
)

// An Amount is a number of requests, or a size: 5, 10MB. The zero value means that none was written.
type Amount struct {
	N     int64
	Bytes bool // written with a unit of size
	Set   bool
}

// Count returns an amount of requests.
func Count(n int64) Amount { return Amount{N: n, Set: true} }

// Bytes returns an amount of bytes.
func Bytes(n weir.Size) Amount { return Amount{N: int64(n), Bytes: true, Set: true} }

func (a Amount) String() string {
	if a.Bytes {
		return weir.Size(a.N).String()
	}
	return strconv.FormatInt(a.N, 10)
}

func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a *Amount) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if n, err := weir.ParseCount(s); err == nil {
		*a = Count(n)
		return nil
	} else if n, err := strconv.ParseInt(s, 10, 64); err == nil && n < 0 {
		return &weir.FieldError{Msg: fmt.Sprintf("%s is below zero", s)}
	}
	size, err := weir.ParseSize(s)
	if err != nil {
		return &weir.FieldError{Msg: fmt.Sprintf("%q is neither a number nor a size", s),
			Hint: "write 5, or 10MB for a volume"}
	}
	*a = Bytes(size)
	return nil
}
