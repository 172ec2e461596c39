package simulate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCSVLog(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		want     []string
		from, to time.Time
		relative bool
	}{
		"seconds": {"time,user,recipients\n0,ann,bob\n2.5,Ann,bob;Eve ; ;carl@Example.org\n",
			[]string{"ann: bob", "ann: bob carl@example.org eve"},
			time.Unix(0, 0), time.UnixMilli(2500), true},
		"a mark, other columns, quotes, CRLF": {"\ufeffsubject,\"Recipients\", TIME ,x,User,recipients\r\n\"hello, " +
			"you\",\"bob;\"\"eve\"\"\",7,,ann,none\r\n,carl,8,,\"ann\"\r\n",
			[]string{`ann: "eve" bob`, "ann: carl"}, time.Unix(7, 0), time.Unix(8, 0), true},
		"spaces and commas": {"time,user,recipients\n0,ann,a@x b@x  c@x\n1,ann,\"a@x,b@x, d@x\"\n",
			[]string{"ann: a@x b@x c@x", "ann: a@x b@x d@x"},
			time.Unix(0, 0), time.Unix(1, 0), true},
		"Unix": {"time,user,recipients\n1700000000,ann,bob\n1700000001.000000001,ann,bob\n1700000002500,ann,bob",
			[]string{"ann: bob", "ann: bob", "ann: bob"},
			time.Unix(1_700_000_000, 0), time.UnixMilli(1_700_000_002_500), false},
		"RFC 3339": {"time,user,recipients\n2026-05-18T08:00:00+02:00,jürgen@münchen.example,ÄNN\n2026-05-18T06:00:00.5Z,a,b\n",
			[]string{"jürgen@münchen.example: änn", "a: b"}, may(6, 0, 0), may(6, 0, 0).Add(500 * time.Millisecond),
			false},
	} {
		got, info := readLog(t, LogOptions{}, file(t, "log.csv", test.text))
		same(t, got, test.want...)
		if !info.From.Equal(test.from) || !info.To.Equal(test.to) || info.Relative != test.relative ||
			info.From.Location() != time.UTC || info.Skipped != 0 {
			t.Errorf("%s: %+v", name, info)
		}
	}
}

func FuzzCSVLog(f *testing.F) {
	f.Add([]byte("time,user,recipients\n0,ann,bob\n2.5,Ann,bob;Eve ; ;carl\n1,x,y\n"))
	f.Add([]byte("\ufeffuser,time,\"recipients\"\r\nann,2026-05-18T08:00:00+02:00,\"b\"\r\nann,\"1e9\",c\r\n"))
	f.Add([]byte("recipients,time,user\nb,1700000000,a\nb,1700000000000,a\n"))
	f.Add([]byte("time,user,recipients\n,,\n,\n\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) { fuzzLog(t, LogCSV, text) })
}

func BenchmarkCSVLog(b *testing.B) {
	benchmarkLog(b, "time,user,recipients\n", "%d,user%d,r%d@example.org;r%d@example.org\n")
}
func BenchmarkJSONLog(b *testing.B) {
	benchmarkLog(b, "", `{"time":%d,"user":"user%d","recipients":["r%d@example.org","r%d@example.org"]}`+"\n")
}

// benchmarkLog reads a log of 100,000 lines.
func benchmarkLog(b *testing.B, header, line string) {
	var text bytes.Buffer
	text.WriteString(header)
	for i := range 100_000 {
		fmt.Fprintf(&text, line, i, i%1000, i*7%5000, i*13%5000)
	}
	benchmarkText(b, text.Bytes(), 100_000)
}

func benchmarkText(b *testing.B, text []byte, lines int) {
	path := filepath.Join(b.TempDir(), "log")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := OpenLog([]string{path}, LogOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range l.Entries() {
			if err != nil {
				b.Fatal(err)
			}
		}
		l.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines), "ns/line")
}
