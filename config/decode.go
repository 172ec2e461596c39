package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"weir"
	"weir/internal/yamltree"
)

// decoder walks the tree and a Go value side by side. It never stops at a mistake.
type decoder struct {
	secrets secrets
	left    int // how many values may still be read, so that aliases cannot unfold without end
	errs    Errors
	failed  map[*yamltree.Node]bool // whose mistakes are reported: what follows from them is not
	strange map[*yamltree.Node]bool // mappings with a key that nobody knows: it may be what is missing there
	secret  map[*yamltree.Node]bool // whose text came from elsewhere
}

func newDecoder(folder string, size int) *decoder {
	return &decoder{secrets: secrets{folder: folder}, left: size + maxUnfolded, failed: map[*yamltree.Node]bool{},
		strange: map[*yamltree.Node]bool{}, secret: map[*yamltree.Node]bool{}}
}

func (d *decoder) fail(n *yamltree.Node, msg, hint string) {
	d.failed[n] = true
	e := mistake(n.At, msg, hint)
	d.secrets.hide(e, d.secret[n])
	d.errs = append(d.errs, e)
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func (d *decoder) value(n *yamltree.Node, v reflect.Value) {
	if d.left--; d.left < 0 {
		if d.left == -1 {
			d.fail(n, fmt.Sprintf("aliases expand to more than %d values", maxUnfolded), "write the values out")
		}
		return
	}
	switch t := v.Type(); {
	case t == reflect.TypeFor[netip.Prefix]():
		if text, ok := d.text(n, t); ok {
			d.prefix(n, text, v)
		}
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		if text, ok := d.text(n, t); ok {
			d.unmarshal(n, text, v)
		}
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		d.value(n, v.Elem())
	case t.Kind() == reflect.Struct:
		d.fields(n, v)
	case t.Kind() == reflect.Map:
		d.entries(n, v)
	case t.Kind() == reflect.Slice:
		d.list(n, v)
	default:
		if text, ok := d.text(n, t); ok {
			d.plain(n, text, v)
		}
	}
}

// text returns the text of a scalar with its references replaced.
func (d *decoder) text(n *yamltree.Node, t reflect.Type) (string, bool) {
	switch n.Kind {
	case yamltree.List:
		hint := ""
		if len(n.Items) == 1 && n.Items[0].Kind == yamltree.Scalar {
			hint = "leave the brackets or the dash out"
		}
		d.fail(n, "expected "+inWords(t)+", got a list", hint)
		return "", false
	case yamltree.Mapping:
		d.fail(n, "expected "+inWords(t)+", got a mapping", "quote a value that contains a colon and a space")
		return "", false
	case yamltree.Null:
		d.fail(n, inWords(t)+" is missing", "")
		return "", false
	}
	text, found, err := d.secrets.expand(n.Text)
	if err != nil {
		d.failed[n] = true
		err.Line, err.Column = n.At.Line, n.At.Column
		d.errs = append(d.errs, err)
		return "", false
	}
	if found {
		d.secret[n] = true
	}
	return text, true
}

// inWords is how messages call a type.
func inWords(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[weir.Duration]():
		return "a duration"
	case reflect.TypeFor[weir.Period]():
		return "a period"
	case reflect.TypeFor[weir.Rate]():
		return "a rate"
	case reflect.TypeFor[weir.Size]():
		return "a size"
	case reflect.TypeFor[weir.Share]():
		return "a share"
	case reflect.TypeFor[netip.Prefix]():
		return "a network"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "a single value"
}

func (d *decoder) unmarshal(n *yamltree.Node, text string, v reflect.Value) {
	err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	for _, fe := range weir.FieldErrors(err) {
		d.fail(n, fe.Msg, fe.Hint)
	}
}

// prefix reads a network. A bare address is a network of one.
func (d *decoder) prefix(n *yamltree.Node, text string, v reflect.Value) {
	text = strings.TrimSpace(text)
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		v.Set(reflect.ValueOf(netip.PrefixFrom(addr, addr.BitLen())))
		return
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		d.fail(n, fmt.Sprintf("%q is not a network", text), "write 10.0.0.0/8, 2001:db8::/32 or a single address")
	case p != p.Masked():
		d.fail(n, fmt.Sprintf("%q has bits set beyond its length", text), fmt.Sprintf("did you mean %s?", p.Masked()))
	default:
		v.Set(reflect.ValueOf(p))
	}
}

func (d *decoder) plain(n *yamltree.Node, text string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		d.boolean(n, text, v)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(n, text, v)
	default:
		d.fail(n, fmt.Sprintf("a value of type %s cannot be read", v.Type()), "")
	}
}

func (d *decoder) boolean(n *yamltree.Node, text string, v reflect.Value) {
	switch text {
	case "true", "false":
		v.SetBool(text == "true")
		return
	}
	hint := "write true or false"
	switch strings.ToLower(text) {
	case "yes", "on", "y", "1", "true":
		hint = "write true"
	case "no", "off", "n", "0", "false":
		hint = "write false"
	}
	d.fail(n, fmt.Sprintf("%q is neither true nor false", text), hint)
}

func (d *decoder) integer(n *yamltree.Node, text string, v reflect.Value) {
	number, err := strconv.ParseInt(text, 10, v.Type().Bits())
	digits := strings.TrimLeft(text, "+-")
	switch {
	case err == nil && (len(digits) == 1 || digits[0] != '0') && text[0] != '+':
		v.SetInt(number)
	case err == nil:
		// YAML reads 010 as 8 or as 10, depending on its version.
		d.fail(n, fmt.Sprintf("%q is not written as a plain number", text), fmt.Sprintf("write %d", number))
	case strings.Contains(err.Error(), "out of range"):
		d.fail(n, fmt.Sprintf("%q is too large a number", text), "")
	default:
		hint := "write it in digits"
		if number, err := weir.ParseCount(strings.NewReplacer(",", "", "'", "").Replace(text)); err == nil &&
			!v.OverflowInt(number) {
			hint = fmt.Sprintf("write %d", number) // 1_000, 1e3 and 1k are not the same to everybody who reads YAML
		} else if number, _, cut := strings.Cut(text, "."); cut && strings.Trim(text, "0123456789.") == "" {
			hint = fmt.Sprintf("write %s", number)
		}
		d.fail(n, fmt.Sprintf("%q is not a whole number", text), hint)
	}
}

func (d *decoder) list(n *yamltree.Node, v reflect.Value) {
	switch n.Kind {
	case yamltree.Mapping:
		d.fail(n, "expected a list, got a mapping", `put "- " before each entry`)
		return
	case yamltree.Scalar:
		if s, ok := v.Interface().(interface{ Single() bool }); ok && s.Single() {
			items := reflect.MakeSlice(v.Type(), 1, 1)
			d.value(n, items.Index(0))
			v.Set(items)
			return
		}
		hint := "write it as a list, in brackets"
		if len(n.Text) <= 40 && !strings.ContainsAny(n.Text, ",\n") {
			hint = "write [" + n.Text + "]"
		}
		d.fail(n, "expected a list, got a single value", hint)
		return
	case yamltree.Null:
		d.fail(n, "a list is missing", "write [] for an empty one")
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		if item.Kind == yamltree.Null {
			d.fail(item, "this entry is empty", "leave it out")
			continue
		}
		d.value(item, items.Index(i))
	}
	v.Set(items)
}

func (d *decoder) entries(n *yamltree.Node, v reflect.Value) {
	if !d.isMapping(n, "") {
		return
	}
	t := v.Type()
	m := reflect.MakeMapWithSize(t, len(n.Pairs))
	seen := map[string]yamltree.Position{}
	for _, p := range n.Pairs {
		if d.double(p, seen) {
			continue
		}
		value := reflect.New(t.Elem()).Elem()
		if p.Value.Kind == yamltree.Null {
			d.fail(p.Value, fmt.Sprintf("%q has no value", p.Key), "leave it out, or write {} for nothing special")
		} else {
			d.value(p.Value, value)
		}
		m.SetMapIndex(reflect.ValueOf(p.Key).Convert(t.Key()), value)
	}
	v.Set(m)
}

// A shortened mapping can be written as the value of one of its keys alone: next_hop: 127.0.0.1:25. Where that is a
// list, a single value will do.
type shortened interface{ Short() string }

// lengthen writes out a mapping that was written short. It changes the tree, so that mistakes are found where they
// stand.
func lengthen(n *yamltree.Node, v reflect.Value) {
	s, ok := v.Interface().(shortened)
	if !ok || n.Kind != yamltree.Scalar && n.Kind != yamltree.List {
		return
	}
	value := *n
	if n.Kind == yamltree.Scalar && isList(v.Type(), s.Short()) {
		value = yamltree.Node{Kind: yamltree.List, At: n.At,
			Items: []*yamltree.Node{{Kind: yamltree.Scalar, At: n.At, Text: n.Text}}}
	}
	*n = yamltree.Node{Kind: yamltree.Mapping, At: n.At,
		Pairs: []yamltree.Pair{{Key: s.Short(), At: n.At, Value: &value}}}
}

// isList reports whether a field of a struct is a list.
func isList(t reflect.Type, name string) bool {
	return slices.ContainsFunc(fieldsOf(t), func(f field) bool { return f.name == name && f.t.Kind() == reflect.Slice })
}

func (d *decoder) fields(n *yamltree.Node, v reflect.Value) {
	lengthen(n, v)
	known := fieldsOf(v.Type())
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
	}
	if !d.isMapping(n, "keys here: "+strings.Join(names, ", ")) {
		return
	}
	seen := map[string]yamltree.Position{}
	var strange []int
	for i, p := range n.Pairs {
		switch {
		case d.double(p, seen):
		case !slices.Contains(names, p.Key):
			strange = append(strange, i)
		default:
			d.field(p, known, v)
		}
	}
	for _, i := range strange {
		p := &n.Pairs[i]
		if isFixed(p.Key, v.Type()) {
			d.errs = append(d.errs, mistake(p.At, fmt.Sprintf("%q cannot be set: weir has a fixed value for it", p.Key),
				"leave it out"))
			continue
		}
		close := weir.Nearest(p.Key, names...)
		d.errs = append(d.errs, mistake(p.At, fmt.Sprintf("unknown key %q", p.Key), keyHint(p.Key, close, known)))
		switch _, taken := seen[close]; {
		case close == "":
			d.strange[n] = true
		case !taken:
			// Continue as if it had been written correctly: what is below is checked too, and nothing is reported as
			// missing.
			seen[close] = p.At
			p.As = close
			d.field(*p, known, v)
		}
	}
}

// isFixed reports whether a key names an option that only programs may set: a field without a key.
func isFixed(key string, t reflect.Type) bool {
	f, found := t.FieldByNameFunc(func(name string) bool {
		return strings.EqualFold(name, strings.ReplaceAll(key, "_", ""))
	})
	return found && f.Tag.Get("yaml") == "-" && t != reflect.TypeFor[Config]()
}

func keyHint(key, close string, known []field) string {
	if close != "" {
		return fmt.Sprintf("did you mean %q?", close)
	}
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
		if f.t.Kind() == reflect.Struct {
			if slices.ContainsFunc(fieldsOf(f.t), func(below field) bool { return below.name == key }) {
				return fmt.Sprintf("it belongs under %q", f.name)
			}
		}
	}
	return "keys here: " + strings.Join(names, ", ")
}

func (d *decoder) field(p yamltree.Pair, known []field, v reflect.Value) {
	name := p.Key
	if p.As != "" {
		name = p.As
	}
	if p.Value.Kind == yamltree.Null {
		return // a key without a value counts as left out
	}
	f := known[slices.IndexFunc(known, func(f field) bool { return f.name == name })]
	into := v.Field(f.index)
	d.value(p.Value, into)
	if f.beside {
		beside(d.secrets.folder, into)
	}
	if f.never0 && into.IsZero() && !d.failed[p.Value] && d.left >= 0 {
		d.fail(p.Value, name+" cannot be 0", "write more than 0, or leave it out")
	}
}

// Never0 reports whether 0 is refused as the value of a key: a number that options could not tell from a key that was
// left out. One behind a pointer can be told, and where 0 is what holds for a key that was left out, the tag says so.
func Never0(f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return f.Tag.Get("zero") != "same"
	}
	return false
}

func (d *decoder) isMapping(n *yamltree.Node, hint string) bool {
	switch n.Kind {
	case yamltree.Mapping:
		return true
	case yamltree.List:
		if len(n.Items) > 0 {
			hint = `leave the "- " or the brackets out`
		}
		d.fail(n, "expected a mapping, got a list", hint)
	case yamltree.Scalar:
		d.fail(n, "expected a mapping, got a single value", hint)
	case yamltree.Null:
		d.fail(n, "a mapping is missing", hint)
	}
	return false
}

// double notes a key and reports whether it was there before.
func (d *decoder) double(p yamltree.Pair, seen map[string]yamltree.Position) bool {
	first, double := seen[p.Key]
	if double {
		d.errs = append(d.errs, mistake(p.At, fmt.Sprintf("duplicate key %q", p.Key),
			fmt.Sprintf("the first one is on line %d", first.Line)))
		return true
	}
	seen[p.Key] = p.At
	return false
}

// A field of an option type, under the name that it has in the file.
type field struct {
	name   string
	index  int
	t      reflect.Type
	never0 bool // see Never0
	beside bool // a file, or files: a relative path starts from the folder of the configuration
}

func fieldsOf(t reflect.Type) []field {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		if name := f.Tag.Get("yaml"); name != "" && name != "-" && f.IsExported() {
			all = append(all, field{name, i, f.Type, Never0(f), f.Tag.Get("file") == "beside"})
		}
	}
	return all
}
