package roster

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

var usual = Columns{"name", "contact", "language"}

func TestCSV(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		want  []Entry
		wrong []Wrong
		err   error
	}{
		"usual": {"name,contact\nann,ann@home.example\n\"bob\", bob@home.example\n",
			[]Entry{{Line: 2, Name: "ann", Contact: "ann@home.example"}, {Line: 3, Name: "bob", Contact: "bob@home.example"}}, nil, nil},
		"of a spreadsheet": {"\xef\xbb\xbfLanguage;Contact;Name\r\nde;ann@home.example;ann\r\n",
			[]Entry{{Line: 2, Name: "ann", Contact: "ann@home.example", Language: "de"}}, nil, nil},
		"other columns": {"id,name,phone,contact\n7,ann,1,a@b.example\n", []Entry{{Line: 2, Name: "ann", Contact: "a@b.example"}}, nil, nil},
		"no contact":    {"name,contact\nann\n", []Entry{{Line: 2, Name: "ann"}}, nil, nil},
		"mistakes": {"name,contact\n,x@home.example\nann,a,b\n\"bob,c\"d,e\ncleo,c@home.example\n",
			[]Entry{{Line: 5, Name: "cleo", Contact: "c@home.example"}},
			[]Wrong{{2, "no name"}, {3, "3 values, but 2 columns"}, {4, `extraneous or missing " in quoted-field`}}, nil},
		"not text":   {"name,contact\n\xff,x\n", nil, []Wrong{{2, "not text in UTF-8"}}, nil},
		"no heading": {"ann,ann@home.example\n", nil, nil, ErrHeading},
		"empty":      {"", nil, nil, ErrHeading},
	} {
		l, err := ReadCSV(strings.NewReader(c.text), usual)
		if l == nil {
			l = &List{}
		}
		if !errors.Is(err, c.err) || !reflect.DeepEqual(l.Entries, c.want) || !reflect.DeepEqual(l.Wrong, c.wrong) {
			t.Errorf("%s: %+v, %+v, %v", name, l.Entries, l.Wrong, err)
		}
	}
}

func TestLDIF(t *testing.T) {
	const text = `version: 1

# people
dn: uid=ann,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: ann
mail: ann@example.org
homeMail: ann@ho
 me.example
homeMail: other@home.example
preferredLanguage;x: de

dn: ou=people,dc=example,dc=org
ou: people

dn:: dWlkPWLDtmI=
uid:: YsO2Yg==
homeMail:: Ym9iQGhvbWUuZXhhbXBsZQ==
jpegPhoto:< file:///etc/passwd

dn: uid=eve
uid:: %%%

dn: uid=dan
changetype: delete
uid: dan

uid cleo

uid: last`
	l, err := ReadLDIF(strings.NewReader(text), Columns{"uid", "homemail", "preferredlanguage"})
	want := []Entry{{Line: 4, Name: "ann", Contact: "ann@home.example", Language: "de"},
		{Line: 16, Name: "böb", Contact: "bob@home.example"}, {Line: 30, Name: "last"}}
	wrong := []Wrong{{21, "not base64: uid"}, {24, "a change, not an entry"}, {28, "a line without a colon"}}
	if err != nil || !reflect.DeepEqual(l.Entries, want) || !reflect.DeepEqual(l.Wrong, wrong) || l.Wrongs != 3 {
		t.Errorf("%+v\n%+v\n%v", l.Entries, l.Wrong, err)
	}
}

// TestBounds: one entry, one line and one byte more than there may be.
func TestBounds(t *testing.T) {
	repeat := func(head, one string, n int) io.Reader {
		return io.MultiReader(strings.NewReader(head), &repeated{one: one, left: n})
	}
	if l, err := ReadCSV(repeat("name,contact\n", "a,b\n", MaxEntries), usual); err != nil || len(l.Entries) != MaxEntries {
		t.Errorf("%v", err)
	}
	if _, err := ReadCSV(repeat("name,contact\n", "a,b\n", MaxEntries+1), usual); !errors.Is(err, ErrLarge) {
		t.Errorf("one entry more: %v", err)
	}
	if l, err := ReadCSV(repeat("name,contact\n", ",\n", maxWrong+1), usual); err != nil || len(l.Wrong) != maxWrong ||
		l.Wrongs != maxWrong+1 {
		t.Errorf("%v", err)
	}
	for n, want := range map[int]string{MaxLine - 5: "", MaxLine - 4: "a line that is too long"} {
		folded := "\nuid: " + strings.Repeat("a", 1000) + strings.Repeat("\n "+strings.Repeat("a", 1000), n/1000-1) +
			"\n " + strings.Repeat("a", n%1000) + "\n"
		l, err := ReadLDIF(strings.NewReader(folded), Columns{Name: "uid"})
		if err != nil || want == "" && len(l.Entries) != 1 || want != "" && (len(l.Wrong) != 1 || l.Wrong[0].Why != want) {
			t.Errorf("%d: %d entries, %+v, %v", n, len(l.Entries), l.Wrong, err)
		}
	}
	b := &bounded{r: strings.NewReader("1234"), left: 3}
	if _, err := io.ReadAll(b); !errors.Is(err, ErrLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// A repeated reader is a text so many times.
type repeated struct {
	one  string
	left int
	rest string
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if r.rest == "" {
			if r.left == 0 {
				return n, io.EOF
			}
			r.left--
			r.rest = r.one
		}
		k := copy(p[n:], r.rest)
		n, r.rest = n+k, r.rest[k:]
	}
	return n, nil
}

// FuzzRead: whatever a list is, each of its entries has a name and a line, in order.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"name,contact\nann,b\n", "name: ann\ncontact:: YQ==\n\n", "name;contact\n\"\n", " \n:\n", "\xef\xbb\xbf"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(io.Reader, Columns) (*List, error){ReadCSV, ReadLDIF} {
			l, err := read(strings.NewReader(text), usual)
			if l == nil {
				if err == nil {
					t.Fatal("neither a list nor an error")
				}
				continue
			}
			last := 0
			for _, e := range l.Entries {
				if e.Name == "" || e.Line <= last || e.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 {
					t.Fatalf("%+v in %q", e, text)
				}
				last = e.Line
			}
		}
	})
}
