// Package demo shows what weir does: a small service or a mail server, a real weir in front of it, people, and a flood.
//
// Run plays every scene of one list (see scenes) that this system can play, and shares the time out among them. A scene
// brings the service behind the gate, the configuration of the weir in front of it and a cast of actors who send real
// traffic over loopback, all the time or in turns. It is played in two halves: first with the throttles in shadow,
// which shows what the flood does to the people, then with the throttles at work. Between the halves the actors finish
// what is under way, so that every figure belongs to one half only and nothing is cut off at the end.
//
//	Scene.Setup -> app.New, Start -> shadow on, first half -> shadow off, second half -> Report
//
// Actors who do not know the result at once, as those who send mail, are told later. Notes of a scene are shown while
// it plays. A scene may check what must be so at its end: the report has the checks, and Run returns an error where one
// failed.
//
// A scene is added by writing a function that returns a Scene, in a file of its own, and naming it in scenes.
//
// The weir is started as any other, through app with a configuration, and is spoken to over its sockets only. Its data
// is in a temporary folder that is removed at the end.
package demo
