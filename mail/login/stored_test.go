package login

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"weir/internal/turns"
)

// cheap is what is stored with parameters that are quick enough for tests.
func cheap(t testing.TB, password string) string {
	t.Helper()
	s := secret{memory: 8, passes: 1, lanes: 1, salt: []byte("saltsaltsaltsalt")}
	s.hash = derive([]byte(password), &s, hashBytes)
	return s.String()
}

func TestHashIsTextInTheUsualForm(t *testing.T) {
	verifier := New(Options{HashMemory: 8})
	one, err := verifier.Hash("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if form := regexp.MustCompile(`^\$argon2id\$v=19\$m=\d+,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`); !form.MatchString(one) {
		t.Errorf("stored is %q", one)
	}
	if two, _ := verifier.Hash("correct horse"); one == two {
		t.Error("two hashes of a password are alike: no salt")
	}
	if _, err := Hash(""); !errors.Is(err, ErrShort) {
		t.Errorf("no password: %v", err)
	}
	if _, err := Hash(strings.Repeat("x", MaxPassword+1)); !errors.Is(err, ErrLong) {
		t.Errorf("too long: %v", err)
	}
}

// TestHashTakesItsTime: a new password takes as much memory as OWASP recommends, unless the options say otherwise.
func TestHashTakesItsTime(t *testing.T) {
	for i, hash := range []func(string) (string, error){Hash, New(Options{}).Hash,
		New(Options{HashMemory: 64}).Hash, New(Options{HashMemory: -1}).Hash} {
		want := []string{"m=19456", "m=19456", "m=64", "m=8"}[i]
		stored, err := hash("correct horse")
		if err != nil || !strings.HasPrefix(stored, "$argon2id$v=19$"+want+",t=2,p=1$") {
			t.Errorf("stored is %q, want %s; %v", stored, want, err)
		}
	}
}

// What another program wrote, with other parameters: the reference implementation's `echo -n password | argon2 somesalt
// -id …`.
func TestStoredByAnotherProgram(t *testing.T) {
	const stored = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	if err := New(Options{}).Verify(t.Context(), turns.Last, "ann", stored, "password"); err != nil {
		t.Error(err)
	}
	if err := New(Options{}).Verify(t.Context(), turns.Last, "ann", stored, "Password"); !errors.Is(err, ErrWrong) {
		t.Error(err)
	}
}

func TestHostileStoredIsRefused(t *testing.T) {
	const salt, hash = "c2FsdHNhbHRzYWx0c2FsdA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	tests := map[string]string{
		"another form":     "{SSHA}whatever",
		"plain":            "password",
		"bcrypt":           "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy",
		"argon2i":          "$argon2i$v=19$m=64,t=1,p=1$" + salt + "$" + hash,
		"version":          "$argon2id$v=16$m=64,t=1,p=1$" + salt + "$" + hash,
		"all memory":       "$argon2id$v=19$m=4294967295,t=1,p=1$" + salt + "$" + hash,
		"bound+1 memory":   "$argon2id$v=19$m=131073,t=1,p=1$" + salt + "$" + hash,
		"past 32 bits":     "$argon2id$v=19$m=4294967360,t=1,p=1$" + salt + "$" + hash,
		"no memory":        "$argon2id$v=19$m=0,t=1,p=1$" + salt + "$" + hash,
		"little memory":    "$argon2id$v=19$m=15,t=1,p=2$" + salt + "$" + hash,
		"bound+1 passes":   "$argon2id$v=19$m=64,t=65,p=1$" + salt + "$" + hash,
		"no passes":        "$argon2id$v=19$m=64,t=0,p=1$" + salt + "$" + hash,
		"bound+1 lanes":    "$argon2id$v=19$m=1024,t=1,p=17$" + salt + "$" + hash,
		"no lanes":         "$argon2id$v=19$m=64,t=1,p=0$" + salt + "$" + hash,
		"too much work":    "$argon2id$v=19$m=131072,t=9,p=1$" + salt + "$" + hash,
		"negative":         "$argon2id$v=19$m=-64,t=1,p=1$" + salt + "$" + hash,
		"leading zero":     "$argon2id$v=19$m=064,t=1,p=1$" + salt + "$" + hash,
		"order":            "$argon2id$v=19$t=1,m=64,p=1$" + salt + "$" + hash,
		"one more":         "$argon2id$v=19$m=64,t=1,p=1,data=AA$" + salt + "$" + hash,
		"short salt":       "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAA$" + hash,
		"no hash":          "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$",
		"short hash":       "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$AAAAAAAAAAAAAAAAAAAA",
		"long hash":        "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + strings.Repeat("A", 87),
		"newline":          "$argon2id$v=19$m=64,t=1,p=1$" + salt + "\n$" + hash,
		"padding":          "$argon2id$v=19$m=64,t=1,p=1$" + salt + "==$" + hash,
		"something behind": "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + hash + "$",
		"long":             "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + strings.Repeat("A", maxStored),
	}
	d := New(Options{})
	d.derive = func([]byte, *secret, int) []byte {
		t.Error("work was done")
		return nil
	}
	for name, stored := range tests {
		err := d.Verify(t.Context(), turns.Last, "ann", stored, "password")
		if !errors.Is(err, ErrStored) || strings.Contains(err.Error(), hash) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := d.Stats(); s.Kept != 0 || s.Inside != 0 {
		t.Errorf("%+v", s)
	}
}

func TestCheck(t *testing.T) {
	for password, want := range map[string]error{
		"":                                   ErrShort,
		"1234567":                            ErrShort,
		"ééééééé":                            ErrShort, // 14 bytes, 7 characters
		"12345678":                           nil,
		"éééééééé":                           nil,
		"correct horse battery":              nil,
		"1234567\x00":                        ErrChars,
		"12345678\xff":                       ErrChars,
		strings.Repeat("x", MaxPassword):     nil,
		strings.Repeat("x", MaxPassword+1):   ErrLong,
		strings.Repeat("é", MaxPassword/2):   nil,
		strings.Repeat("é", MaxPassword/2+1): ErrLong,
	} {
		if err := Check(password); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%.20q (%d bytes): %v, want %v", password, len(password), err, want)
		}
	}
}

// FuzzReadStored: what is read is within its bounds, and written in exactly one way.
func FuzzReadStored(f *testing.F) {
	f.Add(cheap(f, "correct horse"))
	f.Add("")
	f.Add("$argon2id$v=19$m=4294967295,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$$$$$")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readStored(text)
		if err != nil {
			if !errors.Is(err, ErrStored) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if s.memory > maxMemory || s.passes > maxPasses || uint64(s.memory)*uint64(s.passes) > maxWork ||
			s.lanes > maxLanes {
			t.Fatalf("%q is out of bounds", text)
		}
		if again := s.String(); again != text {
			t.Fatalf("%q is read and written %q", text, again)
		}
		if uint64(s.memory)*uint64(s.passes) <= 1<<12 { // the others are too slow for here
			derive([]byte("x"), s, len(s.hash))
		}
	})
}
