package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

// A reading is what a stream of requests is taken for.
type reading struct {
	said []string // method, target, body and trailers of each
	ends []int    // where each one ends
	err  error
}

// read takes a stream of requests apart, as it comes in pieces.
func read(in []byte, piece int, bound int) (r reading) {
	most := Bounds{Bytes: bound, Fields: 100}
	var h Head
	used, have := 0, 0
	more := func() bool {
		if have == len(in) {
			return false
		}
		have = min(have+piece, len(in))
		return true
	}
	for {
		h.Begin(Request)
		n := 0
		for n == 0 && r.err == nil {
			if n, r.err = h.Read(in[used:have], most); n == 0 && r.err == nil && !more() {
				return r
			}
		}
		if r.err != nil {
			return r
		}
		used += n
		said := fmt.Sprintf("%s %s %q {%v %v}", h.Method, h.Target, h.Host, h.Fields.names, h.Fields.values)
		var body []byte
		for left := max(h.Length, 0); left > 0; {
			if have == used && !more() {
				return r
			}
			n := min(int(left), have-used)
			body, used, left = append(body, in[used:used+n]...), used+n, left-int64(n)
		}
		for c := (Chunks{}); h.Chunked; {
			if c.Left > 0 {
				if have == used && !more() {
					return r
				}
				n := min(int(c.Left), have-used)
				body, used, c.Left = append(body, in[used:used+n]...), used+n, c.Left-int64(n)
				continue
			}
			n, wants, done, err := c.Next(in[used:have], most, func(name, value string) error {
				said += " " + name + "=" + value
				return nil
			})
			if used += n; err != nil {
				r.err = err
				return r
			}
			if h.Chunked = !done; wants && !more() {
				return r
			}
		}
		r.said, r.ends = append(r.said, fmt.Sprintf("%s %q", said, body)), append(r.ends, used)
	}
}

func TestPasses(t *testing.T) {
	for in, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n": `GET / "a" {[] []} ""`,
		"\r\n\r\nGET / HTTP/1.0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nX:\t\x80 y \r\n\r\n": "GET / \"\" {[] []} \"\"\n" +
			"GET /2 \"a\" {[X] [\x80 y]} \"\"",
		"POST / HTTP/1.1\r\nhost: a\r\nconTENT-length: 5\r\n\r\nh\nl\rlGET / HTTP/1.1\r\nHost: a\r\n\r\n": "POST / " +
			"\"a\" {[Content-Length] [5]} \"h\\nl\\rl\"\nGET / \"a\" {[] []} \"\"",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n00;x\r\nx-t: v\r\n\r\n": "" +
			`POST / "a" {[] []} X-T=v "hello"`,
	} {
		for _, piece := range []int{1, 2, 3, 7, 1000} {
			if got := read([]byte(in), piece, 1<<10); strings.Join(got.said, "\n") != want || got.err != nil {
				t.Errorf("%q in pieces of %d:\n%s\n%v", in, piece, strings.Join(got.said, "\n"), got.err)
			}
		}
	}
	if got := read([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 3, 1<<10); got.err != ErrPreface {
		t.Error(got.err)
	}
}

// violations are requests that must not get through.
var violations = func() map[string]string {
	text, err := os.ReadFile("testdata/violations.txt")
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, quoted, found := strings.Cut(strings.TrimSpace(line), "\t"); found {
			if all[name], err = strconv.Unquote(quoted); err != nil {
				panic(err)
			}
		}
	}
	return all
}()

// Nobody has to wait for the rest of a head to learn that it is wrong, wherever the pieces are cut, and nothing behind
// it is taken for a request.
func TestViolations(t *testing.T) {
	for name, in := range violations {
		for _, piece := range []int{1, 2, 5, 1000} {
			got := read([]byte(in+"GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n"), piece, 1<<10)
			if got.err == nil || len(got.said) > 0 {
				t.Errorf("%s: %q, %v", name, got.said, got.err)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	head := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 500) + "\r\n\r\n"
	fields := "GET / HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 100)
	chunks := "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		name, in string
		bound    int
		want     error
	}{
		{"a head at the bound", head + head, len(head), nil},
		{"a head above it", head, len(head) - 1, ErrTooLarge},
		{"empty lines at the bound", "\r\n" + head, len(head) + 2, nil},
		{"empty lines above it", "\r\n" + head, len(head) + 1, ErrTooLarge},
		{"a head without an end", strings.TrimRight(head, "\r\n"), len(head) - 4, ErrTooLarge},
		{"as many fields as there may be", fields + "\r\n", 1 << 20, nil},
		{"one more", fields + "X: y\r\n\r\n", 1 << 20, ErrTooLarge},
		{"trailers at the bound", chunks + "0\r\nX: " + strings.Repeat("y", len(chunks)-7) + "\r\n\r\n", len(chunks), nil},
		{"trailers above it", chunks + "0\r\nX: " + strings.Repeat("y", len(chunks)-6) + "\r\n\r\n", len(chunks),
			ErrTrailers},
		{"as many trailers as there may be", chunks + "0\r\n" + strings.Repeat("X: y\r\n", 100) + "\r\n", 1 << 20, nil},
		{"one trailer more", chunks + "0\r\n" + strings.Repeat("X: y\r\n", 101) + "\r\n", 1 << 20, ErrTrailers},
		{"a size line at the bound", chunks + "1;" + strings.Repeat("x", maxSizeLine-4) + "\r\na\r\n0\r\n\r\n", 1 << 20, nil},
		{"a size line above it", chunks + "1;" + strings.Repeat("x", maxSizeLine-3) + "\r\na\r\n0\r\n\r\n", 1 << 20,
			Mistake("chunk size line is too long")},
		{"as many digits as there may be", chunks + "000000000000001\r\na\r\n0\r\n\r\n", 1 << 20, nil},
		{"one digit more", chunks + "0000000000000001\r\na\r\n0\r\n\r\n", 1 << 20, Mistake("chunk size is too large")},
		{"extensions at the bound", chunks + strings.Repeat("1;"+strings.Repeat("x", 127)+"\r\na\r\n", 128) + "0\r\n\r\n",
			1 << 20, nil},
		{"extensions above it", chunks + strings.Repeat("1;"+strings.Repeat("x", 127)+"\r\na\r\n", 128) + "0;\r\n\r\n",
			1 << 20, Mistake("too many chunk extensions")},
	} {
		for _, piece := range []int{1, 13, 10000} {
			got := read([]byte(c.in), piece, c.bound)
			if got.err != c.want || c.want == nil && len(got.said) == 0 {
				t.Errorf("%s in pieces of %d: %v", c.name, piece, got.err)
			}
		}
	}
}

// FuzzRequests compares with net/http: whatever gets through is, for net/http, the same sequence of requests with the
// same borders; and the pieces in which it comes make no difference.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"), uint8(3))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nX: y\r\n\r\n"),
		uint8(1))
	for _, in := range violations {
		f.Add([]byte(in), uint8(7))
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		got := read(in, len(in)+1, 2<<10)
		if cut := read(in, int(piece)+1, 2<<10); fmt.Sprint(cut) != fmt.Sprint(got) {
			t.Fatalf("pieces of %d matter: %v, %v", piece+1, cut, got)
		}
		src := bytes.NewReader(in)
		br := bufio.NewReaderSize(src, 1<<16)
		for i, end := range got.ends {
			r, err := http.ReadRequest(br)
			if err != nil {
				return // net/http has rules of its own for hosts and targets
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatalf("net/http does not read body %d of %q: %v", i, in, err)
			}
			if at := len(in) - src.Len() - br.Buffered(); at != end {
				t.Fatalf("request %d of %q ends at %d, and for net/http at %d", i, in, end, at)
			}
			if !strings.HasSuffix(got.said[i], fmt.Sprintf(" %q", body)) ||
				!strings.HasPrefix(got.said[i], r.Method+" "+r.RequestURI+" ") {
				t.Fatalf("request %d of %q is %s, and for net/http %s %s %q", i, in, got.said[i], r.Method, r.RequestURI,
					body)
			}
		}
	})
}

// FuzzAnswers does the same for the heads of answers.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\nx: b\r\n\r\nhello"), uint8(3))
	f.Add([]byte("HTTP/1.0 404 Not Found\r\nConnection: keep-alive, x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n"),
		uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		most := Bounds{Bytes: 2 << 10, Fields: 20}
		var whole, cut Head
		whole.Begin(Answer)
		n, err := whole.Read(in, most)
		cut.Begin(Answer)
		for have := 0; ; have += int(piece) + 1 {
			k, cutErr := cut.Read(in[:min(have, len(in))], most)
			if k == 0 && cutErr == nil && have < len(in) {
				continue
			}
			same := cut.Status == whole.Status && string(cut.Fields.Append(nil)) == string(whole.Fields.Append(nil))
			if k != n || fmt.Sprint(cutErr) != fmt.Sprint(err) || err == nil && n > 0 && !same {
				t.Fatalf("pieces of %d matter: %d, %v; %d, %v", piece+1, k, cutErr, n, err)
			}
			break
		}
		if err != nil || n == 0 {
			return
		}
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
		if err != nil {
			t.Fatalf("%q: taken, and net/http says %v", in, err)
		}
		if theirs.StatusCode != whole.Status || theirs.ProtoMinor != whole.Minor || theirs.Status != whole.Reason {
			t.Fatalf("%q: %d %q, and net/http says %s", in, whole.Status, whole.Reason, theirs.Status)
		}
	})
}

func TestFields(t *testing.T) {
	var f Fields
	f.Add("A", "1")
	f.Add("B", "2")
	f.Add("A", "3")
	f.Add("A", "4")
	if got := fmt.Sprint(f.Values("A"), f.Values("B"), f.Values("C"), f.Get("A"), f.Has("C"), f.Header()); got !=
		"[1 3 4] [2] []1false map[A:[1 3 4] B:[2]]" {
		t.Error(got)
	}
	if f.Values("A")[0] = "1"; string(f.Append(nil)) != "A: 1\r\nB: 2\r\nA: 3\r\nA: 4\r\n" {
		t.Errorf("%q", f.Append(nil))
	}
	f.Set("A", "5")
	if f.Del("C"); string(f.Append(nil)) != "B: 2\r\nA: 5\r\n" {
		t.Errorf("%q", f.Append(nil))
	}
	var back Fields
	if back.AddHeader(f.Header()); string(back.Append(nil)) != "A: 5\r\nB: 2\r\n" {
		t.Errorf("%q", back.Append(nil))
	}
	if none := (*Fields)(nil); none.Len() != 0 || none.Values("A") != nil || none.Get("A") != "" || none.Has("A") {
		t.Error("nil has fields")
	}
}

// A head in memory that was used before costs one piece of memory: its text.
func TestHeadAllocates(t *testing.T) {
	in := []byte("GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\nAccept: */*\r\naccept-encoding: gzip\r\n\r\n")
	var h Head
	if n := testing.AllocsPerRun(100, func() {
		h.Begin(Request)
		if n, err := h.Read(in, Bounds{Bytes: 1 << 10, Fields: 10}); n != len(in) || err != nil {
			t.Fatal(n, err)
		}
	}); n > 1 {
		t.Errorf("%.0f allocations", n)
	}
}

func BenchmarkHead(b *testing.B) {
	in := []byte("GET /a/b/c?d=e HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
		"Accept: text/html,application/xhtml+xml\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip\r\n" +
		"Cookie: session=0123456789abcdef\r\nCache-Control: no-cache\r\n\r\n")
	var h Head
	b.ReportAllocs()
	for b.Loop() {
		h.Begin(Request)
		if n, err := h.Read(in, Bounds{Bytes: 32 << 10, Fields: 1000}); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
