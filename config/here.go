package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"weir/gate"
	"weir/internal/readfile"
)

// NotHere returns what this machine lacks, as joined FieldErrors: folders of the sockets and of the access log that
// weir makes, and interfaces that addresses name. Without them weir does not start.
func (c *Config) NotHere() error {
	var f findings
	folder := func(at, file string) {
		if !filepath.IsAbs(file) {
			return // a name for a stream
		}
		if _, err := readfile.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
			f.add(at, fmt.Sprintf("there is no folder %s: weir would not start", filepath.Dir(file)),
				"make it, and let the user that weir runs as write there")
		}
	}
	for at, o := range c.Gates() {
		if network, path := gate.Split(o.Facts().Listen); network == "unix" {
			folder(at+".listen", path)
		}
	}
	if filepath.Dir(c.Control) != filepath.Clean(c.WithDefaults().Data) { // weir makes that one
		folder("control", c.Control)
	}
	folder("log.access.to", c.Log.Access.To)
	texts(reflect.ValueOf(*c), "", func(at, text string) {
		for _, match := range scoped.FindAllStringSubmatch(text, -1) {
			if zone := match[1]; !hasInterface(zone) {
				f.add(at, fmt.Sprintf("no interface of this machine is called %.32q", zone), "ip link lists them")
			}
		}
	})
	return errors.Join(f.all...)
}

// scoped is an address of IPv6 with a zone, as it stands before a port. In a URL the % is written %25.
var scoped = regexp.MustCompile(`\[[0-9A-Fa-f:.]+%(?:25)?([^\]]+)\]`)

// hasInterface reports whether this machine has an interface of a name, or with a number.
func hasInterface(zone string) bool {
	if n, err := strconv.Atoi(zone); err == nil {
		_, err := net.InterfaceByIndex(n)
		return err == nil
	}
	_, err := net.InterfaceByName(zone)
	return err == nil
}

// texts calls found with every text that somebody has written, and where it stands.
func texts(v reflect.Value, path string, found func(path, text string)) {
	switch v.Kind() {
	case reflect.String:
		found(path, v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			texts(v.Elem(), path, found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(v.Index(i), fmt.Sprintf("%s[%d]", path, i), found)
		}
	case reflect.Map:
		for key, below := range v.Seq2() {
			texts(below, path+"."+key.String(), found)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			texts(v.Field(f.index), strings.TrimPrefix(path+"."+f.name, "."), found)
		}
	}
}
