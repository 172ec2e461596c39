package identify

import (
	"errors"
	"strings"
	"testing"
)

func TestPhone(t *testing.T) {
	for _, test := range []struct{ number, country, want string }{
		{"+49 30 12345678", "", "+493012345678"},
		{"0049 (30) 1234-5678", "", "+493012345678"},
		{"+49 (0)30/12345678", "", "+493012345678"},
		{"0049 (0)171 5550100", "", "+491715550100"},
		{"0049 171 5550100", "", "+491715550100"},
		{"00 (0)49 171 5550100", "", ""},
		{"011 49 (0)171 5550100", "+1", "+491715550100"},
		{"(0)171 5550100", "+49", "+491715550100"},
		{"+39 (0)6 1234 5678", "", "+390612345678"},
		{"030 12345678", "+49", "+493012345678"},
		{"030.12345678", "49", "+493012345678"},
		{"0049 30 12345678", "+43", "+493012345678"},
		{"\u00a0+49\u202f30\u201112345678 ", "", "+493012345678"},
		{"(212) 555-0123", "+1", "+12125550123"},
		{"1-212-555-0123", "+1", "+12125550123"},
		{"011 49 30 12345678", "+1", "+493012345678"},
		{"06 1234 5678", "+39", "+390612345678"},
		{"06 1 234 5678", "+36", "+3612345678"},
		{"8 495 123-45-67", "+7", "+74951234567"},
		{"12 34 56 78", "+45", "+4512345678"},
		{"+1234567", "", ""},
		{"+12345678", "", "+12345678"},
		{"+123456789012345", "", "+123456789012345"},
		{"+1234567890123456", "", ""},
		{"030 12345678", "", ""},
		{"493012345678", "+49", ""}, // a + left out, or not
		{"493012345678", "", ""},
		{"+030 12345678", "", ""},
		{"0000 30 12345678", "", ""},
		{"++49 30 12345678", "", ""},
		{"49 + 30 12345678", "", ""},
		{"+49 30 12345678 ext. 9", "", ""},
		{"+49 30 12345678;9", "", ""},
		{"1-800-FLOWERS", "+1", ""},
		{"+４９3012345678", "", ""},
		{"030 12345678", "+", ""},
		{"030 12345678", "+0", ""},
		{"030 12345678", "+4949", ""},
		{"030 12345678", "de", ""},
		{"", "+49", ""},
		{"", "", ""},
		{"+", "", ""},
		{"(0)", "+49", ""},
		{strings.Repeat(" ", maxPhone-9) + "+12345678", "", "+12345678"},
		{strings.Repeat(" ", maxPhone-8) + "+12345678", "", ""},
	} {
		got, err := Phone(test.number, test.country)
		if errors.Is(err, ErrNoCountry) {
			got = "" // TestPhoneWithoutCountry
		}
		if got != test.want || (err == nil) != (test.want != "") || err != nil && !errors.Is(err, ErrPhone) {
			t.Errorf("%q in %q is %q, want %q (%v)", test.number, test.country, got, test.want, err)
		}
	}
}

// A number whose country nobody can tell has its digits. What is too short or too long for one is no number at all.
func TestPhoneWithoutCountry(t *testing.T) {
	for _, test := range []struct{ number, country, want string }{
		{"0171 555-0100", "", "01715550100"},
		{"491715550100", "+49", "491715550100"},
		{"(0)171 5550100", "", "01715550100"},
		{"12345678", "", "12345678"},
		{"1234567", "", ""},
		{"123456789012345", "", "123456789012345"},
		{"1234567890123456", "", ""},
		{"123", "", ""},
		{"123", "+49", ""},
		{"abc", "", ""},
		{"+", "", ""},
	} {
		got, err := Phone(test.number, test.country)
		if got != test.want || !errors.Is(err, ErrPhone) || errors.Is(err, ErrNoCountry) != (test.want != "") {
			t.Errorf("%q in %q is %q, want %q (%v)", test.number, test.country, got, test.want, err)
		}
	}
}

func FuzzPhone(f *testing.F) {
	f.Add("+49 (0)30/12345678", "")
	f.Add("06 1 234 5678", "+36")
	f.Add("011 49 30 12345678", "+1")
	f.Fuzz(func(t *testing.T, number, country string) {
		got, err := Phone(number, country)
		if err != nil {
			if (got != "") != errors.Is(err, ErrNoCountry) || len(got) > maxDigits || !errors.Is(err, ErrPhone) ||
				len(err.Error()) > 1000 {
				t.Errorf("%q, %v", got, err)
			}
			return
		}
		if again, err := Phone(got, country); again != got || err != nil || len(got) > 1+maxDigits ||
			len(got) < 1+minDigits {
			t.Errorf("%q is %q, and that is %q, %v", number, got, again, err)
		}
	})
}
