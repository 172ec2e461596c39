package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/recorder"
)

// An oddity is a request that few clients send, and that is right. ACCOUNT stands for the account.
type oddity struct {
	name   string
	place  string
	target string
	header string // lines, each with its CRLF
}

var oddities = []oddity{
	{"Basic", "header", "/app/list", "X-Api-Key: ACCOUNT\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"},
	{"Digest", "header", "/app/list?a=1,2", "X-Api-Key: ACCOUNT\r\n" +
		`Authorization: Digest username="Mufasa", realm="a, b; c", nonce="7yp==", uri="/app/list?a=1,2", qop=auth, nc=00000001, response="8c,a"` + "\r\n"},
	{"the name in another case", "header", "/app/list", "X-API-KEY: ACCOUNT\r\nx-OTHER: 1\r\nACCEPT: */*\r\n"},
	{"white space around the value", "header", "/app/list", "X-Api-Key: \t ACCOUNT \t\r\n"},
	{"no white space", "header", "/app/list", "X-Api-Key:ACCOUNT\r\nX-Other:1\r\nX-Empty:\r\n"},
	{"UTF-8 in values", "header", "/app/list", "X-Api-Key: ACCOUNT\r\nX-Name: Jürg \"Ü\"\t— ok\r\n"},
	{"Latin-1 in values", "header", "/app/list", "X-Api-Key: ACCOUNT\r\nX-Name: J\xfcrg\r\n"},
	{"an account in UTF-8", "header", "/app/list", "X-Api-Key: Jürg-ACCOUNT\r\n"},
	{"names that begin alike", "header", "/app/list",
		"X-Api-Key: ACCOUNT\r\nX-Api-Key-Id: 7\r\nX-Api: 8\r\nKey: 9\r\n"},
	{"lists in several lines", "header", "/app/list",
		"Accept-Encoding: gzip\r\nX-Api-Key: ACCOUNT\r\nAccept: text/html\r\n" +
			"Accept-Encoding: br;q=0.5, *;q=0\r\nAccept: */*;q=0.1\r\n"},
	{"underscores in others", "header", "/app/list", "X-Api-Key: ACCOUNT\r\nx_trace_id: 1\r\n"},
	{"escapes in the path", "header", "/app/%C3%BCber/a%2Fb/%7Euser/a+b;v=1/%e2%82%ac", "X-Api-Key: ACCOUNT\r\n"},
	{"the path ends in a slash", "header", "/app/list/", "X-Api-Key: ACCOUNT\r\n"},
	{"an empty query", "header", "/app/list?", "X-Api-Key: ACCOUNT\r\n"},
	{"any query", "header", "/app/list?q=a;b&x=100%&&=&a[]=1&a[]=2&b&key=1&key=2&url=http://a/?b=c&\xc3\xbc",
		"X-Api-Key: ACCOUNT\r\n"},
	{"any cookies", "header", "/app/list",
		"X-Api-Key: ACCOUNT\r\n" + `Cookie: a="x y"; b=k=v; c={"j":[1,2]}; a=2; ; flag` + "\r\n"},
	{"much of it", "header", "/app/list?" + strings.Repeat("a=1&", 500),
		"X-Api-Key: ACCOUNT\r\nCookie: a=" + strings.Repeat("x", 4000) + "\r\n"},

	{"another case of Bearer", "bearer", "/app/list",
		"authorization: bearer ACCOUNT\r\nX-Api-Key: of the upstream\r\n"},
	{"cookies and a query of others", "bearer", "/app/list?key=1&access_token=2",
		"Authorization: BEARER ACCOUNT\r\nCookie: session=1; session=2\r\n"},

	{"UTF-8", "query", "/app/%C3%BC?q=%C3%BCber+alles%20%E2%82%AC&key=ACCOUNT", ""},
	{"UTF-8 as it is", "query", "/app/list?q=\xc3\xbcber&key=ACCOUNT", ""},
	{"an account in UTF-8", "query", "/app/list?key=J%C3%BCrg-ACCOUNT", ""},
	{"nothing in others", "query", "/app/list?empty=&flag&key=ACCOUNT&=&&last=", ""},
	{"names that begin alike", "query", "/app/list?keys=1&mykey=2&key2=3&filter[key]=4&a.key=5&key=ACCOUNT", ""},
	{"others several times", "query", "/app/list?tag=b&tag=a&key=ACCOUNT&tag=b", ""},
	{"a URL as a value", "query", "/app/list?back=https://a.example/x?key=other%26key=2&key=ACCOUNT", ""},
	{"equals signs as they are", "query", "/app/list?a==&key=ACCOUNT==", ""},
	{"lower-case escapes", "query", "/app/list?q=%c3%bc%2f&key=ACCOUNT", ""},
	{"other places", "query", "/app/list?key=ACCOUNT",
		"X-Api-Key: 1\r\nAuthorization: Bearer 2\r\nCookie: key=3; key=4\r\n"},
	{"a semicolon in another", "query", "/app/list?q=a;b&key=ACCOUNT", ""},
	{"semicolons at the end", "query", "/app/list?key=ACCOUNT&style=color:red;width:1px;", ""},
	{"a percent sign in another", "query", "/app/list?off=100%&key=ACCOUNT&like=%a%", ""},

	{"quotes, JSON and commas", "cookie", "/app/list",
		`Cookie: a="x, y"; b=k=v==; c={"j":[1,2]}; session=ACCOUNT; d=1,2; e=; flag; u=ü` + "\r\n"},
	{"no space between", "cookie", "/app/list", "Cookie: a=1;session=ACCOUNT;b=2\r\n"},
	{"names that begin alike", "cookie", "/app/list",
		"Cookie: sessions=1; my-session=2; session_id=3; session=ACCOUNT; _session=4\r\n"},
	{"others twice", "cookie", "/app/list", "Cookie: theme=a; session=ACCOUNT; theme=b\r\n"},
	{"fifty others", "cookie", "/app/list", "Cookie: " + fifty() + "session=ACCOUNT\r\n"},
	{"two lines", "cookie", "/app/list", "Cookie: a=1; b=2\r\nCookie: session=ACCOUNT; c=3\r\n"},
	{"other places", "cookie", "/app/list?session=1&session=2",
		"Cookie: session=ACCOUNT\r\nX-Session: 3\r\nAuthorization: Bearer 4\r\n"},
}

func fifty() string {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "c%d=%d; ", i, i)
	}
	return b.String()
}

// raw sends bytes to an address, from an address, and returns the status of the answer.
func raw(t *testing.T, from, to, request string) int {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	conn, err := dialer.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// TestInnocentOddities: what few clients send, and is right, arrives as it was sent and counts for who sent it.
func TestInnocentOddities(t *testing.T) {
	t.Parallel()
	s := openPlaces(t)
	for i, o := range oddities {
		t.Run(o.place+"/"+o.name, func(t *testing.T) {
			account := fmt.Sprintf("odd-%d", i)
			at := slices.IndexFunc(places,
				func(p struct{ name, account, throttle string }) bool { return p.name == o.place })
			to := s.app.Addr("http", 2*at).String()
			head := strings.ReplaceAll("GET "+o.target+" HTTP/1.1\r\nHost: "+to+"\r\nUser-Agent: odd\r\n"+o.header+
				"\r\n", "ACCOUNT", account)
			for _, spelled := range []string{"Jürg-", "J%C3%BCrg-"} {
				if strings.Contains(head, spelled+account) {
					account = "Jürg-" + account
				}
			}
			if strings.Contains(head, account+"==") {
				account += "=="
			}
			s.upstream.Take()
			for k := range few {
				if status := raw(t, "127.0.0.1", to, head); status != http.StatusOK {
					t.Fatalf("request %d: %d", k+1, status)
				}
				got := s.upstream.Take()
				if len(got) != 1 {
					t.Fatalf("%d requests came", len(got))
				}
				sent := recorder.Request{Head: []byte(head)}
				if o.name == "two lines" { // one line means the same
					if want := sent.Pairs(); !slices.Equal(got[0].Pairs(), want) {
						t.Errorf("the upstream got the cookies %q, sent was %q", got[0].Pairs(), want)
					}
				} else {
					unchanged(t, fmt.Sprintf("request %d", k+1), sent, got[0], to)
				}
				if left := s.left(t, account); left != few-int64(k)-1 {
					t.Errorf("after request %d the account has %d left", k+1, left)
				}
			}
			if status := raw(t, "127.0.0.1", to, head); status != http.StatusTooManyRequests ||
				len(s.upstream.Take()) > 0 {
				t.Errorf("one more: %d", status)
			}
		})
	}
}

// TestInnocentDigest: curl logs in at the upstream by Digest, which takes two requests, while its key says who it is.
func TestInnocentDigest(t *testing.T) {
	t.Parallel()
	s := openPlaces(t)
	s.upstream.Answers(func(r recorder.Request) recorder.Answer {
		if len(r.Values("Authorization")) == 0 {
			return recorder.Answer{Status: http.StatusUnauthorized,
				Header: []string{`WWW-Authenticate: Digest realm="a, b", qop="auth,auth-int", algorithm=MD5, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"`}}
		}
		return recorder.Answer{Body: "hello\n"}
	})
	for i, secure := range []bool{false, true} {
		account := "digest-" + overWhat(secure)
		if status := curl("/app/list?a=1,2", "-H", "X-Api-Key: ACCOUNT", "--digest", "-u",
			"ann:secret")(s.gate(t, i, secure), account); status != http.StatusOK {
			t.Fatalf("%s: %d", overWhat(secure), status)
		}
		got := s.upstream.Take()
		if len(got) != 2 || s.left(t, account) != 0 {
			t.Fatalf("%d requests came, %d are left", len(got), s.left(t, account))
		}
		for _, r := range got {
			if !slices.Equal(r.Named("X-Api-Key"), []string{"X-Api-Key: " + account}) {
				t.Errorf("the upstream got %q", r.Head)
			}
		}
		if a := got[1].Values("Authorization"); len(a) != 1 ||
			!strings.HasPrefix(a[0], `Digest username="ann", realm="a, b", nonce="7ypf/`) ||
			!strings.Contains(a[0], `uri="/app/list?a=1,2"`) {
			t.Errorf("the upstream got %q", a)
		}
	}
}
