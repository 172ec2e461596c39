// Package gate is what all gates share: the life cycle of a listener. A gate adds its protocol.
//
// A Skeleton listens, accepts, replaces the setup on a reload, and stops: it takes nothing more, waits for what is
// under way, and cuts what takes too long. Every gate embeds one, and so has Listen, Addr, Start and Stop. Their order
// is New, Listen, Start, any number of Prepare, Stop; all of them may be called from several goroutines.
//
// To add a gate, make a folder beside the others with:
//   - Options, with WithDefaults, Validate and Facts. A Listen in it is opened by Listen of this package.
//   - a setup: everything that a connection or a request needs to know of the options. It does not change.
//   - an Env that embeds Env of this package, and an Observer.
//   - a Gate that embeds a Skeleton of the setup. Its New makes the setup and calls New of this package with Hooks:
//     how to open the socket and what to do with a connection. A gate whose connections go to an http.Server, or to
//     one that is like it, has the hook Server; the others start a goroutine for each connection with Skeleton.Go. What
//     is under way goes by two contexts: Serving, which ends when a stop begins, and Base, which ends when a stop has
//     no more patience.
//   - Prepare, which makes a setup of other options and ends with Skeleton.Replace.
//
// Then add a field for its options to config.Config. Options that are a Maker need nothing else; a gate that needs more
// of weir than its chains has a row in the table of package app. gatetest has what its tests need.
//
// Time comes from Env.Clock, with one exception: deadlines of sockets are kept by the operating system in real time.
package gate
