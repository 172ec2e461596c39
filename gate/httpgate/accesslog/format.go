package accesslog

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir"
)

// Bounds on what an operator may write, and on what a client can make of a line.
const (
	MaxTemplate = 4096 // bytes
	maxValue    = 2048 // bytes of one value; the rest is cut off
)

// A Format is what a line looks like.
type Format struct {
	json   bool
	pieces []piece
}

// A piece is a text, and the value that follows it.
type piece struct {
	text  string
	name  name
	value bool // false at the end
}

// JSON writes one object a line.
var JSON = &Format{json: true}

// Combined writes what nginx and Apache call combined.
var Combined = mustParse(`{source} - {account} [{local_time}] "{method} {path} {protocol}" {status} {out} "{referer}" ` +
	`"{user_agent}"`)

func mustParse(text string) *Format {
	f, err := ParseTemplate(text)
	if err != nil {
		panic(err)
	}
	return f
}

// ParseTemplate reads a template: text with names in braces. Two braces stand for one.
func ParseTemplate(text string) (*Format, error) {
	if len(text) > MaxTemplate {
		return nil, &weir.FieldError{Msg: fmt.Sprintf("a template of %d bytes is too long", len(text)),
			Hint: fmt.Sprintf("at most %d", MaxTemplate)}
	}
	var m weir.Mistakes
	f := new(Format)
	var plain []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		twice := i+1 < len(text) && text[i+1] == c
		switch {
		case c < ' ' && c != '\t' || c == 0x7f:
			m.Add("", "a template has a control character", "a template is one line")
			return nil, m.Err()
		case c != '{' && c != '}':
			plain = append(plain, c)
		case twice:
			plain = append(plain, c)
			i++
		case c == '}':
			m.Add("", "a brace is closed that was not opened", "write }} for a plain brace")
			return nil, m.Err()
		default:
			word, _, closed := strings.Cut(text[i+1:], "}")
			if !closed {
				m.Add("", "a brace is never closed", "write {source}, or {{ for a plain brace")
				return nil, m.Err()
			}
			at := slices.Index(Names[:], word)
			if at < 0 {
				m.Add("", fmt.Sprintf("there is no name {%.64s}", word), weir.Suggest(word, Names[:]...))
			}
			f.pieces = append(f.pieces, piece{string(plain), name(max(at, 0)), true})
			plain = plain[:0]
			i += len(word) + 1
		}
	}
	f.pieces = append(f.pieces, piece{text: string(plain) + "\n"})
	if err := m.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// HasQuery reports whether lines show the query.
func (f *Format) HasQuery() bool {
	return slices.ContainsFunc(f.pieces, func(p piece) bool { return p.value && p.name == nameQuery })
}

// Append adds the line of a request, with its end.
func (f *Format) Append(b []byte, r *Record) []byte {
	if f.json {
		return appendJSON(b, r)
	}
	for i := range f.pieces {
		p := &f.pieces[i]
		b = append(b, p.text...)
		if p.value {
			b = r.append(b, p.name)
		}
	}
	return b
}

// localTime is the time as the combined format has it.
const localTime = "02/Jan/2006:15:04:05 -0700"

// append adds one value. What a client chose is escaped; nothing is "-".
func (r *Record) append(b []byte, n name) []byte {
	switch n {
	case nameTime:
		return appendTime(b, r.Time)
	case nameLocalTime:
		return r.Time.AppendFormat(b, localTime)
	case nameUnix:
		return appendThousandths(b, r.Time.UnixMilli())
	case nameTrace:
		if r.Trace != [16]byte{} {
			return hex.AppendEncode(b, r.Trace[:])
		}
	case nameSource:
		if r.Source.IsValid() {
			return r.Source.AppendTo(b)
		}
	case nameStatus:
		return appendStatus(b, r.Status)
	case nameIn:
		return strconv.AppendInt(b, r.In, 10)
	case nameOut:
		return strconv.AppendInt(b, r.Out, 10)
	case nameVerdict:
		return append(b, r.Verdict.String()...)
	case nameReason:
		if r.Reason != weir.NoReason {
			return append(b, r.Reason.String()...)
		}
	case nameWaited:
		return appendThousandths(b, r.Waited.Milliseconds())
	case nameTook:
		return appendThousandths(b, r.Took.Milliseconds())
	case nameWaitedMS:
		return appendThousandths(b, r.Waited.Microseconds())
	case nameTotalMS:
		return appendThousandths(b, r.Took.Microseconds())
	case nameReferer:
		return appendEscaped(b, r.Referer, false)
	case nameUserAgent:
		return appendEscaped(b, r.UserAgent, false)
	default:
		return appendEscaped(b, r.text(n), true)
	}
	return append(b, '-')
}

// text returns a value that is a text without spaces.
func (r *Record) text(n name) string {
	switch n {
	case nameGate:
		return r.Gate
	case nameRoute:
		return r.Route
	case nameID:
		return r.ID
	case nameAccount:
		return r.Account
	case nameMethod:
		return r.Method
	case nameHost:
		return r.Host
	case namePath:
		return r.Path
	case nameQuery:
		return r.Query
	case nameProtocol:
		return r.Protocol
	case nameBy:
		return r.By
	}
	return r.Rule
}

// appendTime adds a time in UTC, to the millisecond.
func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// appendStatus adds a status of three digits. 000 stands for none, as with nginx.
func appendStatus(b []byte, status int) []byte {
	if status < 100 {
		b = append(b, "00"[:2-min(status/10, 1)]...)
	}
	return strconv.AppendInt(b, int64(status), 10)
}

// appendThousandths adds a number of thousandths, as in 1.250.
func appendThousandths(b []byte, n int64) []byte {
	n = max(n, 0)
	b = strconv.AppendInt(b, n/1000, 10)
	return append(b, '.', byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
}

const hexDigits = "0123456789ABCDEF"

// appendEscaped adds a text as nginx writes one to its log: quotes, backslashes and all that is not printable ASCII as
// \xXX, so that nobody can end a line or a quoted part. Where no space may be, it is escaped, too.
func appendEscaped(b []byte, s string, spaceless bool) []byte {
	if s == "" {
		return append(b, '-')
	}
	cut := len(s) > maxValue
	if cut {
		s = s[:maxValue]
	}
	clean := 0
	for i := range len(s) {
		c := s[i]
		if c > ' ' && c < 0x7f && c != '"' && c != '\\' || c == ' ' && !spaceless {
			continue
		}
		b = append(append(b, s[clean:i]...), '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		clean = i + 1
	}
	b = append(b, s[clean:]...)
	if cut {
		b = append(b, "..."...)
	}
	return b
}
