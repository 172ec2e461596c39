package console

import "testing"

func TestContactOf(t *testing.T) {
	for rule, want := range map[string]string{
		"{user}@home.example": "ann@home.example", "{user}@{domain}.example": "ann@example.org.example",
		"{user}@{domain}": "", "{user}": "", "Ann <{user}@home.example>": "", "": "",
	} {
		o := SelfServiceOptions{Contacts: rule}
		if got := o.ContactOf("ann@example.org"); got != want {
			t.Errorf("%q: %q, want %q", rule, got, want)
		}
		if err := o.Validate(); (err == nil) != (want != "" || rule == "") {
			t.Errorf("%q: %v", rule, err)
		}
	}
	o := SelfServiceOptions{Contacts: "{user}@home.example"}
	for user, want := range map[string]string{"ann": "ann@home.example", "a b": "", "a,b@c": "", "": "",
		"x\r\ny": ""} {
		if got := o.ContactOf(user); got != want {
			t.Errorf("%q: %q, want %q", user, got, want)
		}
	}
	if err := (SelfServiceOptions{Contacts: "all@home.example"}).Validate(); err == nil {
		t.Error("one contact for everybody")
	}
}
