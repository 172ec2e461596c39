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

	"weir/internal/readfile"
)

// NotHere returns what this machine lacks, as joined FieldErrors: folders of sockets and of the access log, and
// interfaces that addresses name. weir does not start without those that it opens itself. It does start without the
// folder of a service's socket, which may be made when that service starts.
func (c *Config) NotHere() error {
	var f findings
	folder := func(at, file, so, hint string) {
		if !filepath.IsAbs(file) {
			return // a name for a stream
		}
		where := filepath.Dir(file)
		if _, err := readfile.Stat(where); errors.Is(err, fs.ErrNotExist) {
			f.add(at, fmt.Sprintf("there is no folder %s: %s", where, so), hint)
		}
	}
	const own, make = "weir would not start", "make it, and let the user that weir runs as write there"
	if filepath.Dir(c.Control) != filepath.Clean(c.WithDefaults().Data) { // weir makes that one
		folder("control", c.Control, own, make)
	}
	folder("log.access.to", c.Log.Access.To, own, make)
	texts(reflect.ValueOf(*c), "", func(at, text string) {
		if match := socket.FindStringSubmatch(text); match != nil && strings.HasSuffix(at, ".listen") {
			folder(at, match[1], own, make)
		} else if match != nil {
			folder(at, match[1], "nothing can be reached there", "correct the path, or start the service that makes it")
		}
		for _, match := range scoped.FindAllStringSubmatch(text, -1) {
			if zone := match[1]; !hasInterface(zone) {
				f.add(at, fmt.Sprintf("no interface of this machine is called %.32q", zone), "ip link lists them")
			}
		}
	})
	return errors.Join(f.all...)
}

// socket is the path of a socket as any key takes it: unix:PATH, lmtp:unix:PATH, or the URL of an engine.
var socket = regexp.MustCompile(`^(?:(?:lmtp:)?unix:|(?:redis|valkey)\+unix://(?:.*@)?)(/[^?]*)`)

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
