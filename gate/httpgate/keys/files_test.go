package keys

import (
	"errors"
	"os"
	"testing"
)

// TestReadTwice: what is read of a file that somebody is writing is not used before it is the same twice.
func TestReadTwice(t *testing.T) {
	gone := os.ErrNotExist
	for _, c := range []struct {
		reads []string // "" fails
		want  string
		err   error
		calls int
	}{
		{[]string{"new", "new"}, "new", nil, 2},
		{[]string{"old new", "new", "new"}, "new", nil, 3},
		{[]string{"a", "b", "c", "c"}, "c", nil, 4},
		{[]string{"a", "b", "c", "d", "d"}, "", errChanging, 4},
		{[]string{""}, "", gone, 1},
		{[]string{"a", "", "a"}, "", gone, 2},
		{[]string{"a", "b", "c", ""}, "", gone, 4},
	} {
		calls := 0
		got, err := readTwice("cert.pem", func(string) ([]byte, error) {
			text := c.reads[calls]
			if calls++; text == "" {
				return nil, gone
			}
			return []byte(text), nil
		})
		if string(got) != c.want || !errors.Is(err, c.err) || calls != c.calls {
			t.Errorf("%q: %q, %v after %d reads", c.reads, got, err, calls)
		}
	}
}
