package simulate

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
)

// fuzzLog reads any text: nothing may be lost without a reason, and what is read is in order and within the bounds.
func fuzzLog(t *testing.T, format LogFormat, text []byte) {
	if len(text) > 1<<16 {
		return
	}
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog([]string{path}, LogOptions{Format: format, Clients: networks("::/0", "10.0.0.0/8"), Local: true})
	if err != nil {
		return
	}
	defer l.Close()
	l.limits = logLimits{line: 1 << 12, recipients: 10, users: 5, open: 8, held: 20}
	var last time.Time
	n := 0
	for e, err := range l.Entries() {
		if err != nil {
			if n == 0 && errors.Is(err, ErrNoMail) || len(text) > 2 && text[0] == 0x1f {
				break
			}
			t.Fatal(err)
		}
		n++
		if e.At.Before(last) || !within(e.At) || e.User == "" || len(e.To) == 0 || len(e.To) > 10 ||
			slices.Contains(e.To, "") {
			t.Errorf("%+v", e)
		}
		last = e.At
	}
	info := l.Info()
	if info.Mails != n || info.Users > 5 || n > 0 && (info.To != last || info.Users == 0) {
		t.Errorf("%+v", info)
	}
	if format != LogPostfix && info.Mails+info.Skipped > info.Lines || info.Mails > info.Lines {
		t.Errorf("%+v", info)
	}
}

func TestLogOptions(t *testing.T) {
	for path, o := range map[string]LogOptions{
		"format": {Format: "cvs"}, "year": {Year: 99},
		"clients[1]": {Clients: append(networks("::/0"), netip.Prefix{})},
	} {
		all := weir.FieldErrors(o.Validate())
		if len(all) != 1 || all[0].Path != path {
			t.Errorf("%s: %v", path, all)
		}
		if _, err := OpenLog([]string{"x"}, o); len(weir.FieldErrors(err)) != 1 {
			t.Errorf("%s is let in: %v", path, err)
		}
	}
}

// TestLogIsNone: what is no mail log is said to be none, with what would be one.
func TestLogIsNone(t *testing.T) {
	for name, text := range map[string]string{
		"text":      "Dear all,\nthis is no log.\n",
		"other CSV": "a,b,c\n1,2,3\n",
		"long":      strings.Repeat("x", 3*MaxLogLine),
		"binary":    "\x7fELF\x02\x01\x01\x00",
	} {
		_, err := OpenLog([]string{file(t, "log", text)}, LogOptions{})
		if !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "time,user,recipients") ||
			len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenLog([]string{file(t, "log", "Dear all,\n")}, LogOptions{}); !strings.Contains(err.Error(),
		`"Dear all,"`) {
		t.Error(err)
	}
	if _, err := OpenLog([]string{file(t, "log", `{"time":1}`)}, LogOptions{Format: LogCSV}); !errors.Is(err, ErrLog) {
		t.Errorf("JSON as CSV: %v", err)
	}
	if _, err := OpenLog([]string{t.TempDir()}, LogOptions{}); !errors.Is(err, ErrLog) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := OpenLog([]string{"no such file"}, LogOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := OpenLog(nil, LogOptions{}); !errors.Is(err, ErrLog) {
		t.Error(err)
	}
	csv, json := file(t, "a", "time,user,recipients\n1,a,b\n"), file(t, "b", `{"time":1,"user":"a","recipients":"b"}`)
	if _, err := OpenLog([]string{csv, json}, LogOptions{}); !errors.Is(err, ErrLog) {
		t.Errorf("two formats: %v", err)
	}
	for n, fits := range map[int]bool{MaxLogFiles: true, MaxLogFiles + 1: false} {
		l, err := OpenLog(slices.Repeat([]string{csv}, n), LogOptions{})
		if (err == nil) != fits || err != nil && !errors.Is(err, ErrLog) {
			t.Errorf("%d files: %v", n, err)
		}
		if err == nil {
			l.Close()
		}
	}
}

// TestLogWithoutMail says what was there instead.
func TestLogWithoutMail(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "0 lines",
		"\n\n":                                 "2 are empty",
		"time,user,recipients\n":               "1 lines",
		"time,user,recipients\nx,a,b\ny,a,b\n": "2 are without a time that can be read (the first is line 2)",
	} {
		if err := readError(t, LogOptions{}, file(t, "log", text)); !errors.Is(err, ErrNoMail) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLogFiles: rotated files are read in order of time, however they are given.
func TestLogFiles(t *testing.T) {
	line := func(at time.Time, user string) string {
		id := fmt.Sprintf("%X", at.Unix())
		return at.Format(time.Stamp) + " mx postfix/smtpd[1]: " + id + ": client=x[192.0.2.1], sasl_username=" + user +
			"\n" +
			at.Format(time.Stamp) + " mx postfix/smtp[1]: " + id + ": to=<r@example.org>, relay=x, status=sent (ok)\n"
	}
	day := func(year int, month time.Month, d int) time.Time {
		return time.Date(year, month, d, 9, 0, 0, 0, time.UTC)
	}
	write := func(name string, changed time.Time, text string) string {
		path := file(t, name, text)
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := []string{
		write("maillog", day(2026, 1, 16), line(day(2026, 1, 15), "e")),
		write("maillog.1", day(2026, 1, 8), line(day(2025, 12, 31), "c")+line(day(2026, 1, 7), "d")),
		write("maillog.2.gz", day(2025, 12, 25), line(day(2025, 12, 20), "a")+line(day(2025, 12, 24), "b")),
		write("empty", day(2026, 1, 16), ""),
	}
	for range 5 {
		rand.New(rand.NewPCG(6, 6)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		for _, year := range []int{0, 2025, 2019} {
			got, info := readLog(t, LogOptions{Year: year}, files...)
			same(t, got, "a: r@example.org", "b: r@example.org", "c: r@example.org", "d: r@example.org",
				"e: r@example.org")
			if year == 0 {
				year = 2025
			}
			if info.From != day(year, 12, 20) || info.To != day(year+1, 1, 15) || info.Lines != 10 {
				t.Errorf("%+v", info)
			}
		}
	}
	a, b := file(t, "1", "time,user,recipients\n500,b,c\n"), file(t, "0.gz", "user,time,recipients\na,20,c\n")
	got, info := readLog(t, LogOptions{}, a, b)
	same(t, got, "a: c", "b: c")
	if !info.Relative {
		t.Error("not relative")
	}
}

// TestLeapDay: of the 29th of February it is known in which year it was.
func TestLeapDay(t *testing.T) {
	path := file(t, "maillog", strings.ReplaceAll(postfixMails(1), "May 18", "Feb 29"))
	got, _ := readLog(t, LogOptions{}, path)
	if len(got) != 1 || got[0].At != time.Date(2024, 2, 29, 8, 0, 0, 0, time.UTC) {
		t.Error(got)
	}
}

// TestLogOrder: mails that are nearly in order are put in order; what comes later than that is skipped.
func TestLogOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("time,user,recipients\n")
	const n = 5000
	for i := range n {
		fmt.Fprintf(&b, "%d,u%d,r\n", 1000+i+r.IntN(int(sortWithin/time.Second)), i%7)
	}
	got, info := readLog(t, LogOptions{}, file(t, "log", b.String()))
	if len(got) != n || info.Skipped != 0 {
		t.Errorf("%d mails, %+v", len(got), info)
	}

	late := "time,user,recipients\n1000,a,x\n1600,b,x\n%d,c,x\n1601,d,x\n"
	got, info = readLog(t, LogOptions{}, file(t, "log", fmt.Sprintf(late, 1000)))
	same(t, got, "a: x", "c: x", "b: x", "d: x")
	got, info = readLog(t, LogOptions{}, file(t, "log", fmt.Sprintf(late, 999)))
	same(t, got, "a: x", "b: x", "d: x")
	if lines, first := skippedFor(info, tooOld); lines != 1 || first != 4 {
		t.Errorf("%+v", info)
	}
}

// TestSorterBounds: with too many mails of one time, or too many recipients, the first goes out.
func TestSorterBounds(t *testing.T) {
	s := newSorter(100_000)
	at := may(8, 0, 0)
	for range sortMails {
		s.add(Entry{At: at, To: []string{"x"}}, 1)
	}
	if _, _, ok := s.next(false); ok {
		t.Error("the most are too many")
	}
	s.add(Entry{At: at, To: []string{"x"}}, 2)
	if _, _, ok := s.next(false); !ok || s.waiting.Len() != sortMails {
		t.Error("one more is held")
	}
	s = newSorter(10)
	s.add(Entry{At: at, To: make([]string, 10)}, 1)
	if _, _, ok := s.next(false); ok {
		t.Error("the most recipients are too many")
	}
	s.add(Entry{At: at, To: make([]string, 1)}, 2)
	if _, line, ok := s.next(false); !ok || line != 1 || s.held != 1 {
		t.Error("one more is held")
	}
}

// TestLogBounds: what is too long or too much is skipped, and the rest goes on.
func TestLogBounds(t *testing.T) {
	long := func(n int) string { return "1,a,b," + strings.Repeat("x", n-len("1,a,b,")) + "\n" }
	to := func(n int) string { return "2,a," + strings.Repeat("b;", n-1) + "b\n" }
	name := func(n int) string { return "3," + strings.Repeat("a", n) + ",b\n" }
	for what, test := range map[string]struct {
		line string
		why  reason
	}{
		"line":             {long(MaxLogLine), used},
		"long line":        {long(MaxLogLine + 1), longLine},
		"longer line":      {long(5 * MaxLogLine), longLine},
		"recipients":       {to(MaxMailRecipients), used},
		"many recipients":  {to(MaxMailRecipients + 1), manyRecipients},
		"name":             {name(MaxLogName), used},
		"long name":        {name(MaxLogName + 1), badName},
		"control":          {"4,a\x1bb,c\n", badName},
		"long recipient":   {"4,a," + strings.Repeat("x", MaxLogName+1) + "\n", badName},
		"control in a to":  {"4,a,b;\x00\n", badName},
		"no user":          {"4, ,b\n", noUser},
		"no recipients":    {"4,a,;;\n", noRecipients},
		"negative":         {"-4,a,b\n", noTime},
		"too late":         {"2200-01-01T00:00:00Z,a,b\n", noTime},
		"not a number":     {"NaN,a,b\n", noTime},
		"infinite":         {"1e400,a,b\n", noTime},
		"Unix time":        {"1700000000,a,b\n", otherTime},
		"a date":           {"2026-01-01T00:00:00Z,a,b\n", otherTime},
		"too few columns":  {"4,a\n", badCSV},
		"an open quote":    {"4,\"a,b\n", badCSV},
		"empty":            {" \n", emptyLine},
		"the header again": {"time,user,recipients\n", noTime},
	} {
		got, info := readLog(t, LogOptions{}, file(t, "log", "time,user,recipients\n0,a,b\n"+test.line+"5,a,b\n"))
		want, lines, first := 3, 0, 0
		if test.why != used {
			want = 2
			lines, first = skippedFor(info, test.why)
		}
		if len(got) != want || test.why != used && (lines != 1 || first != 3 || info.Skipped != 1) || info.Lines != 4 {
			t.Errorf("%s: %d mails, %+v", what, len(got), info)
		}
	}

	var b strings.Builder
	b.WriteString("time,user,recipients\n")
	for i := range 12 {
		fmt.Fprintf(&b, "%d,u%d,r\n", i, i%11)
	}
	for most, want := range map[int]int{11: 12, 10: 11} {
		l, err := OpenLog([]string{file(t, "log", b.String())}, LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if l.limits.users != MaxLogUsers {
			t.Error(l.limits)
		}
		l.limits.users = most
		got, info := drain(t, l)
		if lines, _ := skippedFor(info, manyUsers); len(got) != want || info.Users != most || lines != 12-want {
			t.Errorf("%d mails, %+v", len(got), info)
		}
	}
}

// TestLogEnds: a log is read once, may be left in the middle, and says when a file ends too early.
func TestLogEnds(t *testing.T) {
	path := file(t, "log", "time,user,recipients\n1,a,b\n10000,a,b\n20000,a,b\n")
	l, err := OpenLog([]string{path}, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range l.Entries() {
		break
	}
	if info := l.Info(); info.Mails != 1 {
		t.Errorf("%+v", info)
	}
	for _, err := range l.Entries() {
		if !errors.Is(err, ErrLogRead) {
			t.Error(err)
		}
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, err := range l.Entries() {
		if !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}

	l, err = OpenLog([]string{path}, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range l.Entries() {
		l.Close()
	}
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed on the way: %v", err)
	}

	var b strings.Builder
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 20_000 {
		fmt.Fprintf(&b, "%d,u%d,r%d\n", i, r.IntN(1000), r.IntN(1000))
	}
	whole := packed(t, []byte("time,user,recipients\n"+b.String()))
	if err := readError(t, LogOptions{}, file(t, "log", string(whole[:len(whole)/2]))); !errors.Is(err,
		io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "after line") {
		t.Errorf("half a file: %v", err)
	}
	if err := readError(t, LogOptions{}, file(t, "log", "\x1f\x8bnonsense")); err == nil {
		t.Error("not gzip")
	}
}

// TestLogPipe: a pipe is read once, and looked at all the same.
func TestLogPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("no files of pipes here")
	}
	go func() {
		for i := range 10_000 {
			fmt.Fprintf(w, `{"time":%d,"user":"ann","recipients":["r%d"]}`+"\n", i, i)
		}
		w.Close()
	}()
	l, err := OpenLog([]string{path}, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := 0
	for e, err := range l.Entries() {
		if err != nil || e.To[0] != fmt.Sprintf("r%d", n) {
			t.Fatal(n, e, err)
		}
		n++
	}
	if n != 10_000 {
		t.Error(n)
	}
	if done, total := l.Progress(); done != 0 || total != 0 {
		t.Error(done, total)
	}
}
