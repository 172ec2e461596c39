package simulate

import (
	"testing"
	"time"
)

func TestJSONLog(t *testing.T) {
	text := `{"time":"2026-05-18T08:00:00+02:00","user":"Ann","recipients":["bob@example.org"," Eve ",""],"more":{"a":[1]}}

{"recipients":"bob;eve","user":"ann","time":1779084001}
{"time":1779084002.25,"user":"j\u00fcrgen","recipients":["b"]}
{"time":1.779084003e9,"user":"ann","recipients":["b"]}
{"time":"1779084004","user":"ann","recipients":["b"]}
{"time":5,"user":"ann","recipients":["b"]}
{"time":1779084005,"user":"ann","recipients":[]}
{"time":1779084005,"user":"ann","recipients":[1]}
{"time":1779084005,"user":"ann"}
{"time":1779084005,"user":"ann","recipients":null}
{"time":1779084005,"user":7,"recipients":["b"]}
{"time":null,"user":"ann","recipients":["b"]}
{"time":1779084005,"recipients":["b"]}
{"time":1779084005,"user":"ann","recipients":["b"]
[1]
null
`
	got, info := readLog(t, LogOptions{}, file(t, "log.json", text))
	same(t, got, "ann: bob@example.org eve", "ann: bob eve", "jürgen: b", "ann: b", "ann: b")
	if !got[0].At.Equal(may(6, 0, 0)) || got[2].At.Sub(got[0].At) != 2250*time.Millisecond || info.Relative {
		t.Errorf("%v, %+v", got, info)
	}
	for r, want := range map[reason]int{emptyLine: 1, otherTime: 1, noRecipients: 3, badJSON: 4, noTime: 2, noUser: 1} {
		if lines, _ := skippedFor(info, r); lines != want {
			t.Errorf("%d are %s, want %d", lines, why[r], want)
		}
	}
}

func FuzzJSONLog(f *testing.F) {
	f.Add([]byte(`{"time":"2026-05-18T08:00:00+02:00","user":"Ann","recipients":["bob@example.org"," Eve ",""]}` +
		"\n" + `{"recipients":"b;c","user":"a","time":1779084001}`))
	f.Add([]byte(`{"time":5,"user":"ann","recipients":"b"}` + "\n\n" + `{"time":4.5e0,"user":"ann","recipients":null}` +
		"\n{"))
	f.Fuzz(func(t *testing.T, text []byte) { fuzzLog(t, LogJSON, text) })
}
