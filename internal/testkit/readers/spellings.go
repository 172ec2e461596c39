package readers

import (
	"fmt"
	"strings"
)

// A Position is a part of a request that limits depend on, with a word in it that may be spelled in many ways.
type Position struct {
	Name    string
	Key     string // what the programs in the folder servers call it
	Account string // where the gate finds accounts; "" for none
	Word    string // what is spelled
	Means   string // what a server reads that takes the spelling for the word
	again   string // begins the same line once more
	head    string // of a request, with @ for the spelling
}

// Positions are those of Spelling.Weir, in its order.
var Positions = [...]Position{
	{"path", "path", "", "login", "/login", "", "GET /@ HTTP/1.1\r\nHost: a.example\r\n"},
	{"query, name", "query", "query:key", "key", "b", "&", "GET /?@=b&key=a HTTP/1.1\r\nHost: a.example\r\n"},
	{"query, value", "query", "query:key", "a", "a", "&key=", "GET /?key=@ HTTP/1.1\r\nHost: a.example\r\n"},
	{"cookie, name", "cookie", "cookie:session", "session", "b", "\r\nCookie: ",
		"GET / HTTP/1.1\r\nHost: a.example\r\nCookie: @=b; session=a\r\n"},
	{"cookie, value", "cookie", "cookie:session", "a", "a", "\r\nCookie: session=",
		"GET / HTTP/1.1\r\nHost: a.example\r\nCookie: session=@\r\n"},
	{"header, name", "header", "header:X-Api-Key", "X-Api-Key", "b", "\r\n",
		"GET / HTTP/1.1\r\nHost: a.example\r\n@: b\r\nX-Api-Key: a\r\n"},
	{"header, value", "header", "header:X-Api-Key", "a", "a", "\r\nX-Api-Key: ",
		"GET / HTTP/1.1\r\nHost: a.example\r\nX-Api-Key: @\r\n"},
	{"method", "method", "", "DELETE", "DELETE", "", "@ / HTTP/1.1\r\nHost: a.example\r\n"},
	{"override, name", "override", "", "X-HTTP-Method-Override", "DELETE", "\r\n",
		"POST / HTTP/1.1\r\nHost: a.example\r\n@: DELETE\r\n"},
	{"override, value", "override", "", "DELETE", "DELETE", "\r\nX-HTTP-Method-Override: ",
		"POST / HTTP/1.1\r\nHost: a.example\r\nX-HTTP-Method-Override: @\r\n"},
	{"host", "host", "", "a.example", "a.example", "\r\nHost: ", "GET / HTTP/1.1\r\nHost: @\r\n"},
}

// Head is a request in which the place's word is spelled in some way. It ends with a line for the connection.
func (p *Position) Head(spelling string) string {
	return strings.Replace(p.head, "@", p.spell(spelling), 1) + "Content-Length: 0\r\nConnection: close\r\n\r\n"
}

func (p *Position) spell(spelling string) string {
	w := p.Word
	return strings.NewReplacer(
		"@", w,
		"{%}", fmt.Sprintf("%%%02x", w[0])+w[1:],
		"{%25}", fmt.Sprintf("%%25%02x", w[0])+w[1:],
		"{%u}", fmt.Sprintf("%%u%04x", w[0])+w[1:],
		"{octal}", fmt.Sprintf(`"\%03o%s"`, w[0], w[1:]),
		"{low}", strings.ToLower(w),
		"{up}", strings.ToUpper(w),
		"{_}", strings.ReplaceAll(w, "-", "_"),
		"{.}", strings.ReplaceAll(w, "-", "."),
		"{again}", p.again,
	).Replace(spelling)
}

// A Spelling is a way to write a word so that some servers read the word itself, or two words, and others something
// else. To add one, add a line: the tests say what the second column must be.
type Spelling struct {
	// Text has @ for the word, {again} for the same field once more, and the other signs of Position.spell.
	Text string
	// Weir says what weir makes of it in each of Positions: - refuses it, = reads the word, + reads the word and
	// something else, . reads something else.
	Weir string
}

// Spellings are what path, query, cookie, header, method and host all pass through, in weir and in real servers.
var Spellings = []Spelling{
	{"@", "=-===-==++="},
	// Spaces.
	{" @", "---==-=--+="},
	{"@ ", "---==-=--+="},
	{"\t@", "---==-=--+="},
	{"@\t", "---==-=--+="},
	{"@\v", "-----------"},
	{"@\x1c", "-----------"},
	{"@\x00", "-----------"},
	{"@\xa0", "-----------"},
	{"\xa0@", "+----------"},
	{"@\xa0x", "..-.-----.-"},
	{"@\x85", "-----------"},
	{"\x85@", "+----------"},
	{"\x85\xa0@", "+----------"},
	{"@\xe9\xa0", "-----------"},
	{"@\u00a0", "-----------"},
	{"\u00a0@", "+----------"},
	{"@\u0085", "-----------"},
	{"\u0085@", "+----------"},
	{"@\u1680", "-----------"},
	{"@\u180e", "-----------"},
	{"@\u2003", "-----------"},
	{"@\u2028", "-----------"},
	{"@\u200b", "-----------"},
	{"@\u2060", "-----------"},
	{"@\u3000", "-----------"},
	{"@\ufeff", "-----------"},
	{"\ufeff@", "+----------"},
	{"voil\u00e0", ".....-.--.-"}, // ends in 0xA0, and is no blank
	{"@%20", "+-=.=......"},
	{"%20@", ".-=.=......"},
	{"@%09", "+-=.=......"},
	{"@%0a", "+--.-......"},
	{"@%00", "+--.-......"},
	{"@+", ".--........"},
	{"+@", ".--........"},
	{"@%a0", "+--.-......"},
	{"%A0@", "+--.-......"},
	{"@%85", "+--.-......"},
	{"@%c2%a0", "+--.-......"},
	{"%C2%A0@", "+--.-......"},
	{"@%C2%85", "+--.-......"},
	{"@%E2%80%83", "+--.-......"},
	{"@%ef%bb%bf", "+--.-......"},
	{"%EF%BB%BF@", "+--.-......"},
	// Dots.
	{"@.", "+.........="},
	{".@", "..........."},
	{"./@", "=....-.--.-"},
	{"@/.", "=....-.--.-"},
	{"../@", "=....-.--.-"},
	{"x/../@", "=....-.--.-"},
	{"x/%2e%2E/@", "=....-.--.-"},
	{"x/%252e%252e/@", "+.-..-.--.-"},
	{"x/..;/@", "+.-..-.--.-"},
	{".../@", "+....-.--.-"},
	// Slashes.
	{"/@", "=....-.--.-"},
	{"//x/@", "+....-.--.-"},
	{"@/", "=....-.--.-"},
	{`\@`, "+...--.--.-"},
	{`x\..\@`, "+...--.--.-"},
	{"%2f@", "=.........."},
	{"%5c@", "+.........."},
	{"%c0%af@", "+.-.-......"},
	{"x%2f..%2f@", "=.........."},
	// What may end or divide a name.
	{"@;", "+--.=-.--.."},
	{"@;x=1", "+--.=-.--.."},
	{"@%3bx", "+.........."},
	{"x=1;@", ".--=.-.--.."},
	{"@?x", "=....-.--.-"},
	{"@%3fx", "+.........."},
	{"@#x", "=--.......-"},
	{"@%23x", "+.........."},
	{"@:80", ".....-.-..="},
	{"@[]", ".-...-.--.-"},
	{"@[0]", ".-...-.--.-"},
	{"@%5b%5d", ".-........."},
	{"@%00x", "+--.-......"},
	{`"@"`, "....=-.--.-"},
	{`"@`, "....--.--.-"},
	{`@"`, "....--.--.-"},
	{"'@'", "..........."},
	// Encodings.
	{"{%}", "=-=.=......"},
	{"{%25}", "+--.=......"},
	{"{%u}", "---.=......"},
	{"{octal}", "....--.--.-"},
	{"=?utf-8?q?@?=", ".....-.--.-"},
	// Names that look alike.
	{"{low}", "=-===-==++="},
	{"{up}", ".-...-.=++="},
	{"{_}", "=-===.==.+="},
	{"{.}", "=-===.==.+="},
	// More than one.
	{"x,@", "....-----+."},
	{"x, @", "---.-----+-"},
	{"@, x", "---.-----+-"},
	{"x{again}@", ".--=.--.-+-"},
	{"@{again}x", ".--.=--.-+-"},
	{"x\r\n @", "-----------"},
	{"@\r\n x", "-----------"},
}
