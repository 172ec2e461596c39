package httpgate

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// feed sends bytes through a framing in pieces and returns what net/http would see.
func feed(f *framing, in string, piece int) string {
	var out []byte
	for len(in) > 0 {
		n := min(piece, len(in))
		out = append(out, f.scan([]byte(in[:n]), nil)...)
		in = in[n:]
	}
	return string(out)
}

func TestFramingPasses(t *testing.T) {
	for _, in := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nX:\t\x80 y \r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nh\nl\rlGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: v\r\n\r\nGET / " +
			"HTTP/1.1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\n\nanything",
	} {
		for _, piece := range []int{1, 2, 3, 7, 1000} {
			f := newFraming(1 << 10)
			if out := feed(&f, in, piece); out != in || f.why != "" {
				t.Errorf("%q in pieces of %d: %q, %s", in, piece, out, f.why)
			}
		}
	}
}

// TestFramingHoldsNothingBack: what has come of a line goes on at once, so that net/http knows that a request has
// begun, and waits for its end as long as headers may take and not as long as a connection may be idle.
func TestFramingHoldsNothingBack(t *testing.T) {
	const head = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n"
	for n := range len(head) {
		f := newFraming(1 << 10)
		if out := feed(&f, head[:n], 1); out != strings.TrimSuffix(head[:n], "\r") {
			t.Errorf("of %q came %q", head[:n], out)
		}
	}
}

func TestFramingDropsExtensions(t *testing.T) {
	f := newFraming(1 << 10)
	const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	if out := feed(&f, head+"5;a=\"b\"\r\nhello\r\n00;x\r\n\r\n", 1); out != head+"5\r\nhello\r\n00\r\n\r\n" {
		t.Errorf("%q", out)
	}
}

// violations are requests that must not get through. Where the fault lies in the body, the head does.
var violations = map[string]string{
	"bare LF in the request line": "GET / HTTP/1.1\nHost: a\r\n\r\n",
	"bare LF in a header":         "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
	"bare LF at the end":          "GET / HTTP/1.1\r\nHost: a\r\n\n",
	"bare CR":                     "GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
	"bare CR at the end":          "GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n\r\n",
	"doubled CR":                  "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
	"folded line":                 "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
	"folded first line":           "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
	"blanks for the empty line":   "GET / HTTP/1.1\r\nHost: a\r\n  \r\n\r\n",
	"space before the colon":      "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
	"no colon":                    "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
	"no name":                     "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
	"NUL in a header":             "GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
	"NUL in the target":           "GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
	"DEL in a header":             "GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n",
	"two spaces":                  "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"blank at the end":            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
	"tab for a space":             "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"version 1.2":                 "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
	"version 2.0":                 "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
	"no version":                  "GET /\r\n\r\n",
	"CL and TE": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n0\r\n\r\n",
	"TE and CL": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: " +
		"5\r\n\r\n0\r\n\r\n",
	"two equal CL":     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"two different CL": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	"CL list":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
	"CL with sign":     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
	"CL in hex":        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello",
	"CL empty":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nhello",
	"CL endless":       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
	"CL obfuscated":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello",
	"TE list":          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
	"TE gzip":          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"TE twice": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n0\r\n\r\n",
	"TE xchunked":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	"TE quoted":       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
	"TE empty":        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
	"TE vertical tab": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n",
	"TE with space":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"TE folded":       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
	"TE in 1.0":       "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunk size with junk": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n",
	"chunk size in 0x": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
	"chunk size with a blank": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 " +
		"\r\nhello\r\n0\r\n\r\n",
	"chunk size with a sign": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
	"chunk size empty": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
	"chunk size endless": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
	"chunk size with bare LF": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
	"chunk extension with LF": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n",
	"chunk extension with CR": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n",
	"chunk longer than its size": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
	"chunk ended by bare LF": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
	"trailer with bare LF":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
	"trailer folded":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n X: y\r\n\r\n",
	"trailer with a length": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: " +
		"5\r\n\r\n",
}

// TestFramingViolations sees to it that net/http's own parser refuses what is put in place of a violation, wherever the
// pieces are cut, and never gets to the request behind it.
func TestFramingViolations(t *testing.T) {
	for name, in := range violations {
		for _, piece := range []int{1, 2, 5, 1000} {
			f := newFraming(1 << 10)
			out := feed(&f, in+"GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n", piece)
			if f.state != broken {
				t.Errorf("%s: not noticed", name)
			}
			br := bufio.NewReader(strings.NewReader(out))
			for {
				r, err := http.ReadRequest(br)
				if err != nil {
					break
				}
				if strings.Contains(r.RequestURI, "smuggled") {
					t.Errorf("%s: smuggled", name)
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					break
				}
				if name != "" && r.ContentLength >= 0 {
					t.Errorf("%s: %q got through in %q", name, r.RequestURI, out)
				}
			}
		}
	}
}

func TestFramingBound(t *testing.T) {
	head := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 500) + "\r\n\r\n"
	for _, piece := range []int{1, 13, 10000} {
		f := newFraming(len(head))
		if out := feed(&f, head+head, piece); out != head+head {
			t.Errorf("a head at the bound: %q", f.why)
		}
		f = newFraming(len(head) - 1)
		if feed(&f, head, piece); f.state != tooLarge {
			t.Errorf("a head above the bound passes in pieces of %d", piece)
		}
	}
}

// FuzzFraming compares with net/http: whatever gets through unhindered is, for net/http, the same sequence of requests
// with the same borders, and every byte of it belongs to one of them.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"),
		uint8(3))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nX: y\r\n\r\n"),
		uint8(1))
	for _, in := range violations {
		f.Add([]byte(in), uint8(7))
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		fr := newFraming(2 << 10)
		var out []byte
		var ends []int // where framing saw requests end, in out
		for rest := in; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			for _, c := range rest[:n] {
				before := fr.state
				out = fr.scan([]byte{c}, out)
				if fr.state == inRequestLine && before != inRequestLine {
					ends = append(ends, len(out))
				}
			}
			rest = rest[n:]
		}
		whole := newFraming(2 << 10)
		if once := feed(&whole, string(in), int(piece)+1); whole.state != fr.state || once != string(out) &&
			fr.state < broken {
			t.Fatalf("pieces matter: %q, %q", once, out)
		}
		if fr.state == raw || fr.state == tooLarge {
			return
		}
		src := bytes.NewReader(out)
		br := bufio.NewReaderSize(src, 1<<16)
		var got []int
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				break
			}
			if r.Header.Get("Content-Length") != "" && len(r.TransferEncoding) > 0 {
				t.Fatalf("two framings in %q", out)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				break
			}
			got = append(got, len(out)-src.Len()-br.Buffered())
			if len(got) > len(ends) {
				t.Fatalf("net/http sees more requests (%v) than framing (%v) in %q", got, ends, out)
			}
		}
		// net/http may refuse what framing lets through, such as a wrong URL, but must not see other borders.
		for i := range got {
			if got[i] != ends[i] {
				t.Fatalf("borders %v, want %v in %q", got, ends, out)
			}
		}
		if fr.state == broken && len(got) != len(ends) && bytes.Equal(in, out) {
			t.Fatalf("broken, and yet nothing changed: %q", out)
		}
	})
}
