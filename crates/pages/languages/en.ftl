# The words of the pages that visitors see.
#
# Every message that depends on a number has two arguments: $count selects the plural form, and $n is what is shown in
# its place: the number as the language writes it, or a range such as 4–7 (then $count is its upper end).
# Visitors are anxious, on a phone, on a bad network: short, calm, true sentences; nobody is blamed.

# How a language writes numbers, and in which direction, stands in src/languages.rs.

# The name of the language in itself.
language-name = English

waiting-title = You are in line
waiting-lead = Many people want to come in just now. You keep your place, even if you close this page.
standstill-title = The line is paused
standstill-lead = Nobody is being let in at the moment. Your place is safe.
near-title = You are almost there
near-lead = Stay close: it will be your turn soon.
turn-title = It is your turn
turn-lead = You can come in now.
turn-lead-auto = You are being let in.
turn-remaining = { $count ->
    [one] Your place is held for another { $n } second.
   *[other] Your place is held for another { $n } seconds.
}
turn-remaining-minutes = { $count ->
    [one] Your place is held for another { $n } minute.
   *[other] Your place is held for another { $n } minutes.
}
arriving-title = You are joining the line
arriving-lead = One moment: your place is being taken.
arriving-cookies = Nothing happens? Your browser must accept cookies, so that we can hold your place.
many-arriving-title = Many people are arriving
many-arriving-lead = One moment: more people want to join the line than it can take at once. This page tries again by itself.
cookies-needed-title = Cookies are needed
cookies-needed-lead = Your browser did not keep our cookie, so no place can be held for you. Allow cookies for this site, then ask again.
held-title = Your place is safe
held-lead = The line stands still for a moment because of a fault on our side. This page goes on by itself.
held-new-title = One moment, please
held-new-lead = The line cannot be reached just now. This page tries again by itself.
gone-title = Your turn has passed
gone-lead = Your place was not used in time, or you left the line. You can take a new place at the end.
left-title = You have left the line
left-lead = Your place has gone to the next. You can come back at any time, at the end of the line.
moved-title = Your place has moved
moved-lead = You took it to another device or browser. Go on there.
closed-title = Closed
closed-lead = Nobody is let in any more, and no new places are given.
away-title = Not now
away-lead = This site lets nobody in at the moment. Please come back later.
limited-title = Too many requests
limited-lead = Your device or network has asked more often than this site allows. Wait a moment, then go on.
outside-title = You are not inside
outside-lead = Open the site to take a place in line.
not-done-title = This was not carried out
not-done-lead = You are not inside, so nothing was sent to the site. Open the site to take a place in line, and try again when you are in.
unknown-site-title = Unknown site
unknown-site-lead = There is no site of this name here.
failed-title = The site does not answer
failed-lead = You have done nothing wrong. Please try again in a moment.
refused-title = This did not work
refused-lead = Please go back and try again.
inside-title = You are in
inside-lead = You can close this page.
handoff-title = You are in
handoff-lead = You are being taken to the site.
confirm-title = Please confirm
confirm-lead = You are in already. The site asks you to confirm before you go on.
elsewhere-title = Your place is on this device now
elsewhere-lead = Open the site on this device, and log in there. Your place in line is kept.
# $site is the name of the site that the visitor logs in to.
for-site = From here you go on to { $site }.

people-ahead = People ahead of you
people-ahead-of-you = { $count ->
    [0] You are next
    [one] { $n } person ahead of you
   *[other] { $n } people ahead of you
}
your-number = Your number in line
estimated-wait = Estimated wait
wait-unknown = Not known yet
wait-less-than-a-minute = Less than a minute
wait-minutes = { $count ->
    [one] About { $n } minute
   *[other] About { $n } minutes
}
wait-hours = { $count ->
    [one] About { $n } hour
   *[other] About { $n } hours
}
progress-since-joining = How far the line has moved since you joined
updated-at = Updated { $time }
connection-lost = No connection. Your place is safe; this page tries again by itself.
what-happens = When it is your turn, this page lets you in by itself.
what-happens-button = When it is your turn, a button appears here. Your place is then held for a while.
# In rooms where each round's places go to those who are there at that moment.
keep-open = When your turn is near, keep this page open: places go to those who are there.
keep-cookies = This browser holds your place. Keep its cookies.
refresh-by-itself = { $count ->
    [one] This page asks again by itself every { $n } second.
   *[other] This page asks again by itself every { $n } seconds.
}
notice-from-operator = Notice

cues = When it is your turn
cue-sound = Play a sound
cue-notification = Show a notification
cue-notification-blocked = Notifications are blocked in this browser

enter-button = Go in now
continue-button = Continue
ask-again = Ask again now
join-button = Take a new place in line
home-button = Back to the site
leave-button = Leave the line
leave-question = Give up your place? It goes to the next in line, and cannot be had back.
leave-confirm = Yes, leave the line
move-button = Continue on another device
move-title = Take your place to another device
move-lead = Open this link on the other device. Your place then moves there, and this page ends.
move-qr-text = QR code of the link
move-expires = { $count ->
    [one] The link works for { $n } minute, once.
   *[other] The link works for { $n } minutes, once.
}
move-copy = Copy the link
move-copied = Copied
move-close = Close
take-title = Go on with your place here
take-lead = Your place in line moves to this browser. The other device lets go of it.
take-instead = You give up the place that this browser holds now.
take-button = Take my place here
take-failed-title = This link does not work any more
take-failed-lead = It was used already, or it is too old. Make a new one on the device that holds your place.
