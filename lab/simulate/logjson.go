package simulate

import (
	"bytes"
	"encoding/json"
	"time"
)

// A jsonReader reads lines of JSON, each an object.
type jsonReader struct {
	log    *Log
	stamps stamps
	mail   jsonMail
}

// jsonMail is one line. The time is RFC 3339 or a number; the recipients are a list, or one text in which semicolons,
// commas or spaces separate them.
type jsonMail struct {
	Time       json.RawMessage `json:"time"`
	User       string          `json:"user"`
	Recipients json.RawMessage `json:"recipients"`
}

func (m *jsonMail) read(line []byte) bool {
	*m = jsonMail{Time: m.Time[:0], Recipients: m.Recipients[:0]}
	return json.Unmarshal(line, m) == nil
}

func (m *jsonMail) time() []byte { return bytes.Trim(m.Time, `"`) }

func (j *jsonReader) file(*logFile) {}
func (j *jsonReader) end()          {}

func (j *jsonReader) line(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		j.log.skip(emptyLine)
		return
	}
	r := badJSON
	if j.mail.read(line) {
		var at time.Time
		if at, r = j.stamps.read(j.mail.time()); r == used {
			r = j.entry(at)
		}
	}
	if r != used {
		j.log.skip(r)
	}
	j.log.info.Relative = j.stamps.relative
}

// entry takes a mail, or returns why not.
func (j *jsonReader) entry(at time.Time) reason {
	user, to := []byte(j.mail.User), j.mail.Recipients
	if bytes.HasPrefix(to, []byte(`"`)) {
		var text string
		if json.Unmarshal(to, &text) != nil {
			return badJSON
		}
		return j.log.entry(at, user, []byte(text))
	}
	var all []string
	if len(to) > 0 && json.Unmarshal(to, &all) != nil {
		return badJSON
	}
	if len(all) > j.log.limits.recipients {
		return manyRecipients
	}
	named := all[:0]
	for _, one := range all {
		name, ok := j.log.names.name([]byte(one))
		if !ok {
			return badName
		}
		if name != "" {
			named = append(named, name)
		}
	}
	return j.log.listedEntry(at, user, named)
}
