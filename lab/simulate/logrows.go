package simulate

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"time"
)

// A csvReader reads lines of CSV. The header of each file names the columns; other columns are left out.
type csvReader struct {
	log    *Log
	stamps stamps
	titled bool   // the header was read
	column [3]int // of time, user and recipients
}

var columns = [3]string{"time", "user", "recipients"}

func (c *csvReader) file(*logFile) { c.titled = false }
func (c *csvReader) end()          {}

// header reads the titles of the columns. It reports whether all needed ones are there.
func (c *csvReader) header(line []byte) bool {
	if len(line) > 1<<16 || !bytes.ContainsRune(line, ',') {
		return false
	}
	titles, _ := split(line)
	c.column = [3]int{-1, -1, -1}
	for at, title := range titles {
		for i, name := range columns {
			if c.column[i] < 0 && strings.EqualFold(strings.TrimSpace(title), name) {
				c.column[i] = at
			}
		}
	}
	c.titled = min(c.column[0], c.column[1], c.column[2]) >= 0
	return c.titled
}

// split splits a line. A text in quotes ends on its line.
func split(line []byte) ([]string, error) {
	if bytes.IndexByte(line, '"') < 0 {
		return strings.Split(string(line), ","), nil
	}
	r := csv.NewReader(bytes.NewReader(line))
	r.FieldsPerRecord = -1
	return r.Read()
}

// fields returns the columns that matter: time, user and recipients.
func (c *csvReader) fields(line []byte) (got [3][]byte, r reason) {
	all, err := split(line)
	if err != nil || len(all) <= max(c.column[0], c.column[1], c.column[2]) {
		return got, badCSV
	}
	for i, column := range c.column {
		got[i] = []byte(all[column])
	}
	return got, used
}

func (c *csvReader) line(line []byte) {
	if !c.titled {
		if !c.header(line) {
			c.log.skip(badCSV)
		}
		return
	}
	fields, r := c.fields(line)
	var at time.Time
	if r == used {
		at, r = c.stamps.read(fields[0])
	}
	if r == used {
		r = c.log.entry(at, fields[1], fields[2])
	}
	if r != used {
		c.log.skip(r)
	}
	c.log.info.Relative = c.stamps.relative
}

// entry takes a mail whose recipients are separated by semicolons, commas or spaces, or returns why not.
func (l *Log) entry(at time.Time, user, to []byte) reason {
	all, ok := namesOf(to, l.limits.recipients)
	if !ok {
		return badName
	}
	return l.listedEntry(at, user, all)
}

// listedEntry takes a mail whose recipients are names already, or returns why not.
func (l *Log) listedEntry(at time.Time, user []byte, to []string) reason {
	name, ok := nameOf(user)
	switch {
	case !ok:
		return badName
	case name == "":
		return noUser
	case len(to) == 0:
		return noRecipients
	case len(to) > l.limits.recipients:
		return manyRecipients
	}
	l.mail(Entry{At: at, User: name, To: to}, l.info.Lines)
	return used
}

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
		name, ok := nameOf([]byte(one))
		if !ok {
			return badName
		}
		if name != "" {
			named = append(named, name)
		}
	}
	return j.log.listedEntry(at, user, named)
}
