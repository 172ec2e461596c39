package identify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strings"

	"weir"
)

// MaxExemptFile is how many bytes a list of networks may have.
const MaxExemptFile = 8 << 20

// The widest networks that may be exempt. A wider one in a list is a mistake: with all addresses in the list of a bot,
// its agent alone would be enough. 10.0.0.0/8 and fc00::/7 can be used.
const (
	widestV4 = 8
	widestV6 = 7
)

func tooWide(p netip.Prefix) *weir.FieldError {
	plain := PlainPrefix(p)
	least := widestV6
	if plain.Addr().Is4() {
		least = widestV4
	}
	if plain.Bits() >= least {
		return nil
	}
	return &weir.FieldError{Msg: fmt.Sprintf("%s is a large part of the internet", p),
		Hint: fmt.Sprintf("/%d is the widest", least)}
}

func readList(name string, read func(string) ([]byte, error)) ([]netip.Prefix, *weir.FieldError) {
	data, err := read(name)
	if err != nil {
		// The error has the name of the file only once.
		if inner, ok := errors.AsType[*fs.PathError](err); ok {
			err = inner.Err
		}
		return nil, &weir.FieldError{Msg: fmt.Sprintf("%s cannot be read: %v", name, err)}
	}
	if len(data) > MaxExemptFile {
		return nil, &weir.FieldError{Msg: fmt.Sprintf("%s has %d bytes", name, len(data)),
			Hint: fmt.Sprintf("at most %s", weir.Size(MaxExemptFile))}
	}
	networks, line, fault := parseList(data)
	if fault != nil {
		fault.Msg = fmt.Sprintf("%s:%d: %s", name, line, fault.Msg)
		return nil, fault
	}
	return networks, nil
}

// parseList reads networks, one per line or in JSON. line is the line of a mistake.
func parseList(data []byte) (networks []netip.Prefix, line int, fault *weir.FieldError) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		networks, line, fault = parseJSON(data)
	} else {
		networks, line, fault = parseLines(data)
	}
	if fault == nil && len(networks) == 0 {
		// A search engine that moves its list may leave a note instead, and a failed download an empty file.
		return nil, line, &weir.FieldError{Msg: "the list names no network",
			Hint: "was it fetched whole, and from the right address?"}
	}
	return networks, line, fault
}

func parseLines(data []byte) (networks []netip.Prefix, line int, fault *weir.FieldError) {
	for text := range strings.Lines(string(data)) {
		line++
		text, _, _ = strings.Cut(text, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if networks, fault = appendNetwork(networks, text); fault != nil {
			return nil, line, fault
		}
	}
	return networks, max(line, 1), nil
}

// parseJSON reads {"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}]}, and more beside it.
func parseJSON(data []byte) (networks []netip.Prefix, line int, fault *weir.FieldError) {
	d := json.NewDecoder(bytes.NewReader(data))
	lineAt := func(offset int64) int { return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n")) }
	wrong := func(err error) ([]netip.Prefix, int, *weir.FieldError) {
		at := d.InputOffset()
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = syntax.Offset
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			at, err = int64(len(data)), errors.New("it ends in the middle")
		}
		return nil, lineAt(at), &weir.FieldError{Msg: fmt.Sprintf("not a list of networks in JSON: %v", err),
			Hint: `{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}]}, or one network per line`}
	}
	if err := expect(d, '{'); err != nil {
		return wrong(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return wrong(err)
		}
		if key != "prefixes" {
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return wrong(err)
			}
			continue
		}
		if err := expect(d, '['); err != nil {
			return wrong(err)
		}
		for d.More() {
			var entry struct {
				V4 string `json:"ipv4Prefix"`
				V6 string `json:"ipv6Prefix"`
			}
			if err := d.Decode(&entry); err != nil {
				return wrong(err)
			}
			if entry.V4 == "" && entry.V6 == "" {
				return nil, lineAt(d.InputOffset()),
					&weir.FieldError{Msg: "an entry names no network", Hint: "ipv4Prefix or ipv6Prefix"}
			}
			for _, text := range [...]string{entry.V4, entry.V6} {
				if text == "" {
					continue
				}
				if networks, fault = appendNetwork(networks, text); fault != nil {
					return nil, lineAt(d.InputOffset()), fault
				}
			}
		}
		if err := expect(d, ']'); err != nil {
			return wrong(err)
		}
	}
	if err := expect(d, '}'); err != nil {
		return wrong(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return wrong(errors.New("there is more after its end"))
	}
	return networks, lineAt(d.InputOffset()), nil
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v where %v should be", got, want)
	}
	return err
}

// appendNetwork reads one more network. A bare address is a network of one.
func appendNetwork(networks []netip.Prefix, text string) ([]netip.Prefix, *weir.FieldError) {
	p, err := netip.ParsePrefix(text)
	if addr, bare := netip.ParseAddr(text); bare == nil && addr.Zone() == "" {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		return nil, &weir.FieldError{Msg: fmt.Sprintf("%.60q is not a network", text),
			Hint: "write 192.0.2.0/24, 2001:db8::/32 or a single address"}
	case p != p.Masked():
		return nil, &weir.FieldError{Msg: fmt.Sprintf("%.60q has bits set beyond its length", text),
			Hint: fmt.Sprintf("did you mean %s?", p.Masked())}
	case len(networks) == MaxExemptNetworks:
		return nil, &weir.FieldError{Msg: fmt.Sprintf("more than %d networks", MaxExemptNetworks),
			Hint: "leave some out, or write wider ones"}
	}
	if fault := tooWide(p); fault != nil {
		return nil, fault
	}
	return append(networks, p), nil
}
