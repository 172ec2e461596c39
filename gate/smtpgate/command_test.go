package smtpgate

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParseCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]string{
		"QUIT":              {"QUIT", ""},
		"quit \t ":          {"QUIT", ""},
		"NOOP  a b ":        {"NOOP", "a b"},
		"MAIL FROM:<a@b>":   {"MAIL", "FROM:<a@b>"},
		"":                  {"", ""},
		" QUIT":             {"", "QUIT"},
		"QUIT\x00":          {"", ""},
		"MAIL\tFROM:<a@b>":  {"", ""},
		"MAIL-FROM <a@b>":   {"", ""},
		"HÉLO x":            {"", ""},
		"QUITQUITQUITQUITQ": {"", ""},
	} {
		if verb, arg := parseCommand([]byte(line)); verb != want[0] || verb != "" && arg != want[1] {
			t.Errorf("%q is %q, %q", line, verb, arg)
		}
	}
}

func TestParsePath(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"TO:<a@b.example>":               "a@b.example|",
		"to: <a@b.example> X=1 Y":        "a@b.example| X=1 Y",
		"TO:a@b.example X=1":             "a@b.example| X=1",
		"TO:<>":                          "|",
		"TO:<> X=1":                      "| X=1",
		`TO:<"a b\"c\\"@d.example>`:      `a b"c\@d.example|`,
		`TO:<"a@b"@c.example>`:           "a@b@c.example|", // which is no address that can be written again
		"TO:<@x.example,@y.example:a@b>": "a@b|",
		"TO:<postmaster>":                "postmaster|",
		"TO:<PostMaster> NOTIFY=NEVER":   "PostMaster| NOTIFY=NEVER",
		"TO:<@x example:a@b>":            "",
		"TO:<@x,y:a@b>":                  "",
		"TO:<@x>":                        "",
		"TO:<a>":                         "",
		"TO:<a@>":                        "",
		"TO:<@b>":                        "",
		"TO:<a@b":                        "",
		"TO:<a@b>X=1":                    "",
		"TO:<>X":                         "",
		"TO:<a b@c>":                     "",
		"TO:<a@b c>":                     "",
		`TO:<""@c>`:                      "",
		`TO:<"a@c>`:                      "",
		`TO:<"a\`:                        "",
		`TO:<"a"b@c>`:                    "",
		"TO:":                            "",
		"TO <a@b>":                       "",
		"T":                              "",
		"FROM:<a@b>":                     "",
	} {
		path, params, err := parsePath(arg, "TO:")
		if got := path + "|" + params; (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q is %q, %v", arg, got, err)
		}
	}
}

func TestParseChunk(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"0": "0 false", "5": "5 false", "5 LAST": "5 true", "5  last": "5 true", "007": "7 false",
		"9223372036854775807": "9223372036854775807 false",
		"5 LAST x":            "5 wrong", "5 x": "5 wrong", "": "-1 wrong", "x": "-1 wrong", "-5": "-1 wrong",
		"+5": "-1 wrong", "5x": "-1 wrong", "0x5": "-1 wrong", "5_0": "-1 wrong",
		"9223372036854775808": "-1 wrong", "LAST": "-1 wrong",
	} {
		size, last, err := parseChunk(arg)
		got := fmt.Sprint(size, " ", last)
		if err != nil {
			got = fmt.Sprint(size, " wrong")
		}
		if got != want {
			t.Errorf("BDAT %s is %s, want %s", arg, got, want)
		}
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]mailParams{
		"":           {},
		"  SIZE=5  ": {size: 5},
		" size=5 Body=8bitmime SMTPUTF8 RET=hdrs ENVID=a+2Bb AUTH=<>": {size: 5, eightBit: true, utf8: true,
			ret: "HDRS", envelope: "a+b"},
		" BODY=7BIT AUTH=a+40b":      {},
		" SIZE=99999999999999999999": {size: math.MaxInt64},
	} {
		if got, n := readMailParams(text); n != nil || got != want {
			t.Errorf("%q is %+v, %+v", text, got, n)
		}
	}
	for text, want := range map[string]int{
		" SIZE": 501, " SIZE=": 501, " SIZE=x": 501, " SIZE=-1": 501, " SIZE=1=2": 501,
		" SIZE=999999999999999999999": 501, " SIZE=1 SIZE=1": 501, " BODY=x": 501,
		" BODY=BINARYMIME": 504, " SMTPUTF8=1": 501, " RET=x": 501, " RET=FULL ret=FULL": 501, " ENVID=": 501,
		" ENVID=a+2bb": 501, " ENVID=a+2": 501, " ENVID=a+0Ab": 501, " ENVID=ü": 501,
		" ENVID=" + strings.Repeat("a", 101): 501, " AUTH=+": 501, " X": 555, " =": 501, " =1": 555,
		" NOTIFY=NEVER": 555, " REQUIRETLS": 555,
	} {
		if _, n := readMailParams(text); n == nil || n.reply.code != want || n.how != MailMalformed {
			t.Errorf("%q: %+v, want %d", text, n, want)
		}
	}
	for text, want := range map[string]rcptParams{
		"":                               {},
		" notify=never":                  {notify: "NEVER"},
		" NOTIFY=success,Failure,DELAY":  {notify: "SUCCESS,FAILURE,DELAY"},
		" ORCPT=rfc822;a+2Bb@c":          {original: "rfc822;a+b@c"},
		` ORCPT=UTF-8;\x{FC}\x{1F600}@c`: {original: "utf-8;ü😀@c"},
		" ORCPT=utf-8;ü@c NOTIFY=DELAY":  {original: "utf-8;ü@c", notify: "DELAY"},
	} {
		if got, n := readRcptParams(text); n != nil || got != want {
			t.Errorf("%q is %+v, %+v", text, got, n)
		}
	}
	for text, want := range map[string]int{
		" NOTIFY=": 501, " NOTIFY=NEVER,DELAY": 501, " NOTIFY=DELAY,DELAY": 501, " NOTIFY=DELAY,": 501,
		" NOTIFY=x": 501, " ORCPT=a@b": 501, " ORCPT=rfc822;": 501, " ORCPT=x400;a": 501,
		" ORCPT=rfc822;ü@c": 501, ` ORCPT=utf-8;\x{D800}@c`: 501, ` ORCPT=utf-8;\x{A}@c`: 501,
		` ORCPT=utf-8;\x{fc}@c`: 501, ` ORCPT=utf-8;\xFC`: 501, " ORCPT=utf-8;\xff@c": 501,
		" ORCPT=utf-8;a+b@c": 501, " ORCPT=rfc822;" + strings.Repeat("x", 501): 501, " SIZE=1": 555,
	} {
		if _, n := readRcptParams(text); n == nil || n.reply.code != want {
			t.Errorf("%q: %+v, want %d", text, n, want)
		}
	}
}

// TestPipelinedRefusals: what was sent before its client could know of a refusal is no mistake of the client's.
func TestPipelinedRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Errors, r.opts.Bounds.Recipients = 3, 2 })
	c := r.as("ann")
	c.send("MAIL FROM:<a@b..c>\r\n" + strings.Repeat("RCPT TO:<bob@example.com>\r\n", 10) + "DATA\r\n")
	c.expect("553 ")
	for range 11 {
		c.expect("503 5.5.1 MAIL first")
	}
	c.send("MAIL FROM:<ann@example.org>\r\n" + strings.Repeat("RCPT TO:<bob@example.com>\r\n", 10) + "DATA\r\n")
	for _, want := range []string{"250 ", "250 ", "250 "} {
		c.expect(want)
	}
	for range 8 {
		c.expect("452 4.5.3 a mail has 2 recipients at most")
	}
	c.expect("354 ")
	c.cmd(hello+".", "250 ")
	if r.seen.count("bound recipients") != 8 || r.seen.count("bound errors") != 0 {
		t.Error(r.seen.counts)
	}
	for _, want := range []string{"500 ", "421 4.7.0 too many errors"} {
		c.cmd("FOO", want)
	}
	c.ended()
}

// FuzzCommand: whatever a command is, what is read of it can be written into another one.
func FuzzCommand(f *testing.F) {
	for _, seed := range []string{"MAIL FROM:<a@b> SIZE=1", `RCPT TO:<"a b"@c> ORCPT=utf-8;\x{FC}@c`,
		"RCPT TO:<@x,@y:a@b> NOTIFY=DELAY,FAILURE", "BDAT 5 LAST", "MAIL FROM:<> ENVID=a+2Bb AUTH=<>"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		verb, arg := parseCommand(line)
		if verb != strings.ToUpper(verb) || strings.ContainsAny(verb, " \t\x00") {
			t.Errorf("%q is a verb", verb)
		}
		for _, keyword := range []string{"FROM:", "TO:"} {
			path, params, err := parsePath(arg, keyword)
			if err != nil {
				continue
			}
			if path != "" && !strings.Contains(path, "@") && !strings.EqualFold(path, postmaster) {
				t.Errorf("%q is a path", path)
			}
			m, n := readMailParams(params)
			if n == nil && (m.size < 0 || len(m.envelope) > maxEnvelope ||
				strings.ContainsFunc(m.envelope, func(r rune) bool { return r < ' ' || r > '~' })) {
				t.Errorf("%+v", m)
			}
			p, n := readRcptParams(params)
			if n == nil && strings.ContainsFunc(p.original+p.notify,
				func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("%+v", p)
			}
		}
		if size, last, err := parseChunk(arg); last && err != nil || size < -1 {
			t.Error(size, last, err)
		}
	})
}
