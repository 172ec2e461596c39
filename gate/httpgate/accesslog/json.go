package accesslog

import (
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"weir"
)

// appendJSON adds the object of a request. What is not known is left out, except for numbers.
func appendJSON(b []byte, r *Record) []byte {
	b = append(b, `{"time":"`...)
	b = append(appendTime(b, r.Time), '"')
	b = appendField(b, nameGate, r.Gate)
	b = appendField(b, nameRoute, r.Route)
	b = appendField(b, nameID, r.ID)
	if r.Trace != [16]byte{} {
		b = append(hex.AppendEncode(append(b, `,"trace_id":"`...), r.Trace[:]), '"')
	}
	if r.Source.IsValid() {
		b = append(r.Source.AppendTo(append(b, `,"source":"`...)), '"')
	}
	b = appendField(b, nameAccount, r.Account)
	b = appendField(b, nameMethod, r.Method)
	b = appendField(b, nameHost, r.Host)
	b = appendField(b, namePath, r.Path)
	b = appendField(b, nameProtocol, r.Protocol)
	b = appendField(b, nameUserAgent, r.UserAgent)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(r.Status), 10)
	b = strconv.AppendInt(append(b, `,"in":`...), r.In, 10)
	b = strconv.AppendInt(append(b, `,"out":`...), r.Out, 10)
	b = appendField(b, nameVerdict, r.Verdict.String())
	b = appendField(b, nameBy, r.By)
	b = appendField(b, nameRule, r.Rule)
	if r.Reason != weir.NoReason {
		b = appendField(b, nameReason, r.Reason.String())
	}
	b = appendThousandths(append(b, `,"waited_ms":`...), r.Waited.Microseconds())
	b = appendThousandths(append(b, `,"total_ms":`...), r.Took.Microseconds())
	return append(b, "}\n"...)
}

// appendField adds a text under its name, unless it is empty.
func appendField(b []byte, n name, s string) []byte {
	if s == "" {
		return b
	}
	b = append(append(append(b, `,"`...), Names[n]...), `":"`...)
	cut := len(s) > maxValue
	if cut {
		s = s[:maxValue]
	}
	clean := 0
	for i := 0; i < len(s); {
		c := s[i]
		size := 1
		switch {
		case c >= ' ' && c < 0x7f && c != '"' && c != '\\':
			i++
			continue
		case c == '"' || c == '\\':
			b = append(append(b, s[clean:i]...), '\\', c)
		case c < utf8.RuneSelf:
			b = append(append(b, s[clean:i]...), '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			var char rune
			if char, size = utf8.DecodeRuneInString(s[i:]); !endsLine(char) && (char != utf8.RuneError || size > 1) {
				i += size
				continue
			}
			b = append(append(b, s[clean:i]...), '\\', 'u', hexDigits[char>>12&15], hexDigits[char>>8&15],
				hexDigits[char>>4&15], hexDigits[char&15])
		}
		i += size
		clean = i
	}
	b = append(b, s[clean:]...)
	if cut {
		b = append(b, "..."...)
	}
	return append(b, '"')
}

// endsLine reports whether some programs take a character outside ASCII for the end of a line, or for a control
// character.
func endsLine(char rune) bool {
	return char >= 0x80 && char < 0xa0 || char == '\u2028' || char == '\u2029'
}
