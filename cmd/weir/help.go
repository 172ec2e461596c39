package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// A helpGroup is a heading in the help, and the commands under it, each with an example that can be pasted.
type helpGroup struct {
	title    string
	commands []helpExample
}

type helpExample struct{ command, example string }

// helpGroups are all commands that the help lists.
func helpGroups() []helpGroup {
	return []helpGroup{
		{"Start", []helpExample{
			{"demo play", "weir demo --for 20s"},
			{"demo show", "weir demo show --control /tmp/weir-demo-1/weir.sock"},
			{"demo flood", "weir demo flood quota --control /tmp/weir-demo-1/weir.sock"},
			{"demo pay", "weir demo pay stamps --control /tmp/weir-demo-1/weir.sock"},
			{"demo stop", "weir demo stop quota --control /tmp/weir-demo-1/weir.sock"},
			{"init", "weir init --for api --upstream http://127.0.0.1:3000 --limit 100/1m"},
			{"check", "weir check /etc/weir/weir.yaml"},
			{"serve", "weir serve -c /etc/weir/weir.yaml"},
			{"reload", "weir reload"},
		}},
		{"Watch", []helpExample{
			{"status", "weir status"},
			{"top", "weir top"},
			{"capacity", "weir capacity"},
			{"refusals", "weir refusals --throttle plans"},
			{"why", "weir why GET /v1/things --account acme"},
			{"account get", "weir account get acme"},
			{"account reset", "weir account reset acme"},
			{"account limit", "weir account limit acme --policy per-minute --limit 50 --for 2h"},
			{"account limits", "weir account limits"},
			{"shadow on", "weir shadow on plans"},
			{"shadow off", "weir shadow off --all"},
			{"audit", "weir audit --since 1d --what ban-add"},
			{"notify list", "weir notify list"},
			{"notify test", "weir notify test"},
		}},
		{"Console", []helpExample{
			{"operator add", "weir operator add ann --role act"},
			{"operator list", "weir operator list"},
			{"operator remove", "weir operator remove ann"},
			{"operator role", "weir operator role ann admin"},
			{"operator sessions", "weir operator sessions ann"},
			{"operator logout", "weir operator logout ann"},
			{"operator password", "weir operator password admin"},
			{"token add", "weir token add backup-check --role view --for 30d"},
			{"token list", "weir token list"},
			{"token revoke", "weir token revoke backup-check"},
		}},
		{"Bans", []helpExample{
			{"ban list", "weir ban list"},
			{"ban add", "weir ban add 192.0.2.0/24 --for 1d --reason scraping"},
			{"ban remove", "weir ban remove 192.0.2.0/24"},
			{"ban import", "weir ban import drop.txt --name drop --for 7d"},
			{"ban lists", "weir ban lists"},
		}},
		{"Mail", []helpExample{
			{"queue list", "weir queue list --state held"},
			{"queue track", "weir queue track bob@example.net"},
			{"queue show", "weir queue show 6GXY1YJ1GEP0C"},
			{"queue release", "weir queue release --all --user ann"},
			{"queue delete", "weir queue delete 6GXY1YJ1GEP0C"},
			{"queue retry", "weir queue retry 6GXY1YJ1GEP0C"},
			{"user add", "weir user add ann --contact ann@example.org"},
			{"user import", "weir user import people.csv --dry-run"},
			{"user list", "weir user list"},
			{"user show", "weir user show ann"},
			{"user history", "weir user history ann"},
			{"user stop", "weir user stop ann --why 'password stolen'"},
			{"user resume", "weir user resume ann"},
			{"user passwd", "weir user passwd ann"},
			{"user set", "weir user set ann contact=ann@example.net"},
			{"user remove", "weir user remove ann"},
			{"reach list", "weir reach list"},
			{"reach show", "weir reach show ann"},
			{"reach clear", "weir reach clear ann"},
			{"reach flag", "weir reach flag ann"},
			{"reach usual", "weir reach usual"},
		}},
		{"Look before you throttle", []helpExample{
			{"plan bloom", "weir plan bloom --attackers 1e6"},
			{"simulate virus", "weir simulate virus --rate 60/m"},
			{"simulate mail", "weir simulate mail --log /var/log/mail.log"},
			{"simulate reach", "weir simulate reach --log /var/log/mail.log"},
			{"simulate flood", "weir simulate flood --capacity 50/s --flood 1000/s"},
			{"bench flood", "weir bench flood --fronts none,weir"},
		}},
		{"Pay with CPU time", []helpExample{
			{"stamp solve", "weir stamp solve --url https://example.org/search"},
			{"stamp mail", "weir stamp mail --params https://example.org/.well-known/weir-mail-stamp bob@example.org"},
		}},
		{"Keep it running", []helpExample{
			{"upgrade", "weir upgrade"},
			{"backup", "weir backup /var/backups/weir"},
			{"store check", "weir store check /var/backups/weir"},
			{"store salvage", "weir store salvage /var/lib/weir"},
			{"farm leave", "weir farm leave"},
			{"farm forget", "weir farm forget edge-2"},
			{"xdp status", "weir xdp status"},
			{"xdp detach", "weir xdp detach eth0"},
		}},
		{"About weir", []helpExample{
			{"completion", "weir completion bash > /etc/bash_completion.d/weir"},
			{"version", "weir version --json"},
		}},
	}
}

// group puts the commands of a model under their headings and adds the examples.
func group(model *kong.Node) {
	for _, g := range helpGroups() {
		under := &kong.Group{Key: g.title, Title: g.title + ":"}
		for _, c := range g.commands {
			if node := find(model, strings.Fields(c.command)); node != nil {
				node.Group, node.Detail = under, "Example:\n\n    "+c.example
			}
		}
	}
}

// find returns the node of a command, or nil.
func find(node *kong.Node, path []string) *kong.Node {
	for _, name := range path {
		node = child(node, name)
		if node == nil {
			return nil
		}
	}
	return node
}

func child(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}
