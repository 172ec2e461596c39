package bounce

import (
	"strings"
	"testing"
	"time"
)

// FuzzWrite: whatever a report says, the notification is a mail of three parts, with as many recipients as there are.
func FuzzWrite(f *testing.F) {
	r := report()
	f.Add(uint8(0), true, r.From, r.Host, r.To, r.Envelope, r.Recipients[0].Address, r.Recipients[0].Original, "5.1.1",
		550, r.Recipients[0].Text, "FULL", letter)
	f.Add(uint8(1), false, "", "", "a@b", "\r\n\r\n", "x\r\n\r\n--weir-BOUNDARY", ";", "5.1.1\r\nAction: x", -1,
		"\x00\n.\n", "HDRS", "\r\n.\r\n")
	f.Add(uint8(2), false, "@", "\u202e", "ä@ö", "ø", "\xff@\xfe", "rfc822;\xff", "9.9.9", 99999,
		strings.Repeat("ø", 2000), "", "X-Weir-Stamp")
	f.Add(uint8(0), true, "a@[::1]", "[::1]", "<<>>", "", "", "utf-8;ø", "", 0, strings.Repeat("x", 3000), "FULL",
		"A: b\nX-Weir-Stamp: c\n\n\n")
	f.Fuzz(func(t *testing.T, kind uint8, utf8 bool, from, host, to, envelope, address, original, status string,
		code int, text, ret, letter string) {
		if to == "" || to == "<>" || strings.Contains(letter, "weir-BOUNDARY") {
			return
		}
		r := &Report{
			Kind: Kind(kind % 3), UTF8: utf8, From: from, Host: host, To: to, ID: envelope, MessageID: from, Now: start,
			Arrived: start, Until: start,
			Envelope: envelope, Return: ret, Original: strings.NewReader(letter), Size: int64(kind) * 100,
			Recipients: []Recipient{
				{Address: address, Original: original, Status: status, Code: code, Text: text, Server: host,
					Last: start},
				{Address: text, Original: address, Status: original, Code: code, Text: status, Server: text,
					Last: time.Time{}},
			},
		}
		written := written(t, r)
		all := parts(t, written)
		for i, g := range groups(t, all[1]) {
			switch {
			case i > 2:
				t.Fatalf("%d groups of fields in\n%s", i+1, all[1].body)
			case i == 0 && len(g["Reporting-Mta"]) != 1, i > 0 &&
				(len(g["Final-Recipient"]) != 1 || len(g["Action"]) != 1 || len(g["Status"]) != 1):
				t.Fatalf("group %d is %v", i, g)
			}
		}
		ours := written[:len(written)-len(all[2].body)]
		for line := range strings.SplitSeq(ours, "\r\n") {
			if len(line) > 998 {
				t.Fatalf("a line of %d bytes", len(line))
			}
		}
		if head, _, _ := strings.Cut(all[2].body, "\r\n\r\n"); strings.Contains(strings.ToLower("\n"+head),
			"\nx-weir-stamp:") {
			t.Fatalf("a stamp is returned:\n%s", head)
		}
	})
}
