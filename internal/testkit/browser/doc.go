// Package browser looks at weir's pages as a visitor would: in a real Chromium, on a phone and on a desktop, by day and
// by night. Only tests import it.
//
// A page may not reach outside this machine, and whatever the browser complains about fails the test. With
// WEIR_SCREENSHOTS set to the absolute path of a folder, pictures of every page are left there for a person to look at.
package browser
