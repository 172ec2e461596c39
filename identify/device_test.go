package identify

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestDevice(t *testing.T) {
	const short, long = "02:00:5e:00:53:01", "02:00:5e:10:00:00:00:01"
	for text, want := range map[string]string{
		"02:00:5E:00:53:01":       short,
		"02-00-5e-00-53-01":       short,
		"02.00.5e.00.53.01":       short,
		"0200.5e00.5301":          short,
		"0200:5e00:5301":          short,
		"02005e-005301":           short,
		"02005E005301":            short,
		"2:0:5e:0:53:1":           short,
		"2:00:5e:0:53:01":         short,
		"02:00:5e:10:00:00:00:01": long,
		"0200.5e10.0000.0001":     long,
		"02005e10-00000001":       long,
		"02005e1000000001":        long,
		"2:0:5e:10:0:0:0:1":       long,
		"2-0-5e-0-53-1":           "",
		"02:00:5e:00:53":          "",
		"02:00:5e:00:53:01:02":    "",
		"02:00-5e:00:53:01":       "",
		"02:00:5e:00:53:0g":       "",
		"02:00:5e:00:53:01:":      "",
		":02:00:5e:00:53:01":      "",
		"02::5e:00:53:01":         "",
		"02:005e:0053:01":         "",
		"020-05e-005-301":         "",
		"02005e00530":             "",
		"02005e10000000011":       "",
		" 02:00:5e:00:53:01":      "",
		"":                        "",
		strings.Repeat("0:", 1e5): "",
	} {
		got, err := Device(text)
		if got != want || (err == nil) != (want != "") || err != nil &&
			(!errors.Is(err, ErrDevice) || len(err.Error()) > 300) {
			t.Errorf("%.40q is %q, want %q (%v)", text, got, want, err)
		}
	}
}

func FuzzDevice(f *testing.F) {
	for _, seed := range []string{"02:00:5E:00:53:01", "0200.5e10.0000.0001", "2:0:5e:0:53:1", "02005e-005301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Device(text)
		if err != nil {
			if got != "" || !errors.Is(err, ErrDevice) {
				t.Errorf("%q, %v", got, err)
			}
			return
		}
		if known, err := net.ParseMAC(got); err != nil || known.String() != got {
			t.Errorf("%q is %q: %v", text, got, err)
		}
		if known, err := net.ParseMAC(text); err == nil && known.String() != got {
			t.Errorf("%q is %q, want %v", text, got, known)
		}
	})
}
