# German (Sie). What each message is for is said in en.ftl.

language-name = Deutsch

waiting-title = Sie sind in der Warteschlange
waiting-lead = Gerade möchten viele hinein. Ihr Platz bleibt Ihnen erhalten, auch wenn Sie diese Seite schließen.
standstill-title = Die Warteschlange ist angehalten
standstill-lead = Im Moment wird niemand eingelassen. Ihr Platz ist sicher.
near-title = Gleich ist es so weit
near-lead = Bleiben Sie in der Nähe: Sie sind bald an der Reihe.
turn-title = Sie sind an der Reihe
turn-lead = Sie können jetzt hinein.
turn-lead-auto = Sie werden jetzt eingelassen.
turn-remaining = { $count ->
    [one] Ihr Platz ist noch { $n } Sekunde für Sie reserviert.
   *[other] Ihr Platz ist noch { $n } Sekunden für Sie reserviert.
}
turn-remaining-minutes = { $count ->
    [one] Ihr Platz ist noch { $n } Minute für Sie reserviert.
   *[other] Ihr Platz ist noch { $n } Minuten für Sie reserviert.
}
arriving-title = Sie kommen in die Warteschlange
arriving-lead = Einen Moment, Ihr Platz wird reserviert.
arriving-cookies = Es tut sich nichts? Ihr Browser muss Cookies zulassen, damit wir Ihren Platz freihalten können.
many-arriving-title = Es kommen gerade viele an
many-arriving-lead = Einen Moment: Es wollen sich mehr Menschen anstellen, als auf einmal möglich ist. Diese Seite versucht es von selbst wieder.
cookies-needed-title = Cookies werden gebraucht
cookies-needed-lead = Ihr Browser hat unser Cookie nicht behalten, darum können wir keinen Platz für Sie freihalten. Lassen Sie Cookies für diese Seite zu, und fragen Sie dann erneut nach.
held-title = Ihr Platz ist sicher
held-lead = Wegen einer Störung bei uns geht es gerade nicht voran. Diese Seite macht von selbst weiter.
held-new-title = Einen Moment bitte
held-new-lead = Die Warteschlange ist gerade nicht erreichbar. Diese Seite versucht es von selbst wieder.
gone-title = Ihr Platz ist nicht mehr reserviert
gone-lead = Die Zeit zum Eintreten ist abgelaufen, oder Sie haben die Warteschlange verlassen. Sie können sich hinten neu anstellen.
left-title = Sie haben die Warteschlange verlassen
left-lead = Ihr Platz ist frei für die Nächsten. Sie können jederzeit wiederkommen und sich hinten neu anstellen.
moved-title = Ihr Platz ist umgezogen
moved-lead = Sie haben ihn auf ein anderes Gerät oder in einen anderen Browser mitgenommen. Dort geht es weiter.
closed-title = Geschlossen
closed-lead = Es wird niemand mehr eingelassen, und es werden keine neuen Plätze vergeben.
away-title = Im Moment nicht
away-lead = Diese Website lässt zurzeit niemanden ein. Bitte kommen Sie später wieder.
limited-title = Zu viele Anfragen
limited-lead = Von Ihrem Gerät oder Netzwerk kamen mehr Anfragen, als diese Website zulässt. Warten Sie einen Moment, dann geht es weiter.
outside-title = Sie sind noch nicht drin
outside-lead = Öffnen Sie die Website, um sich anzustellen.
not-done-title = Das wurde nicht ausgeführt
not-done-lead = Sie sind noch nicht drin, deshalb wurde nichts an die Website gesendet. Öffnen Sie die Website, um sich anzustellen, und versuchen Sie es noch einmal, sobald Sie drin sind.
unknown-site-title = Unbekannte Website
unknown-site-lead = Unter diesem Namen gibt es hier keine Website.
failed-title = Die Website antwortet nicht
failed-lead = Es liegt nicht an Ihnen. Bitte versuchen Sie es gleich noch einmal.
refused-title = Das hat nicht geklappt
refused-lead = Bitte gehen Sie zurück und versuchen Sie es noch einmal.
inside-title = Sie sind drin
inside-lead = Sie können diese Seite schließen.
handoff-title = Sie sind drin
handoff-lead = Sie werden zur Website weitergeleitet.
confirm-title = Bitte bestätigen Sie
confirm-lead = Sie sind bereits drin. Die Website bittet um eine Bestätigung, bevor es weitergeht.
elsewhere-title = Ihr Platz ist jetzt auf diesem Gerät
elsewhere-lead = Öffnen Sie die Website auf diesem Gerät, und melden Sie sich dort an. Ihr Platz in der Warteschlange bleibt Ihnen erhalten.
for-site = Von hier geht es weiter zu { $site }.

people-ahead = Personen vor Ihnen
people-ahead-of-you = { $count ->
    [0] Sie sind als Nächstes dran
    [one] { $n } Person vor Ihnen
   *[other] { $n } Personen vor Ihnen
}
your-number = Ihre Wartenummer
estimated-wait = Voraussichtliche Wartezeit
wait-unknown = Noch nicht bekannt
wait-less-than-a-minute = Weniger als eine Minute
wait-minutes = { $count ->
    [one] Etwa { $n } Minute
   *[other] Etwa { $n } Minuten
}
wait-hours = { $count ->
    [one] Etwa { $n } Stunde
   *[other] Etwa { $n } Stunden
}
progress-since-joining = Wie weit Sie seit dem Anstellen vorgerückt sind
updated-at = Stand: { $time }
connection-lost = Keine Verbindung. Ihr Platz ist sicher; diese Seite versucht es von selbst wieder.
what-happens = Sobald Sie an der Reihe sind, lässt diese Seite Sie von selbst ein.
what-happens-button = Sobald Sie an der Reihe sind, erscheint hier ein Knopf. Ihr Platz bleibt dann eine Weile für Sie reserviert.
keep-open = Wenn Sie bald an der Reihe sind, lassen Sie diese Seite offen: Die Plätze gehen an die, die dann da sind.
keep-cookies = Dieser Browser merkt sich Ihren Platz. Löschen Sie seine Cookies nicht.
refresh-by-itself = { $count ->
    [one] Diese Seite fragt im Abstand von { $n } Sekunde von selbst nach.
   *[other] Diese Seite fragt alle { $n } Sekunden von selbst nach.
}
notice-from-operator = Hinweis

cues = Wenn Sie an der Reihe sind
cue-sound = Ton abspielen
cue-notification = Benachrichtigung anzeigen
cue-notification-blocked = Benachrichtigungen sind in diesem Browser blockiert

enter-button = Jetzt eintreten
continue-button = Weiter
ask-again = Jetzt erneut nachfragen
join-button = Neu anstellen
home-button = Zurück zur Website
leave-button = Warteschlange verlassen
leave-question = Möchten Sie Ihren Platz aufgeben? Er geht an die Nächsten in der Warteschlange, und Sie bekommen ihn nicht zurück.
leave-confirm = Ja, Warteschlange verlassen
move-button = Auf anderem Gerät weiter
move-title = Ihren Platz auf ein anderes Gerät mitnehmen
move-lead = Öffnen Sie diesen Link auf dem anderen Gerät. Ihr Platz zieht dann dorthin um, und diese Seite gilt nicht mehr.
move-qr-text = QR-Code des Links
move-expires = { $count ->
    [one] Der Link gilt { $n } Minute und nur einmal.
   *[other] Der Link gilt { $n } Minuten und nur einmal.
}
move-copy = Link kopieren
move-copied = Kopiert
move-close = Schließen
take-title = Hier mit Ihrem Platz weitermachen
take-lead = Ihr Platz in der Warteschlange zieht in diesen Browser um. Auf dem anderen Gerät gilt er dann nicht mehr.
take-instead = Den Platz, den dieser Browser jetzt hat, geben Sie damit auf.
take-button = Meinen Platz hierher holen
take-failed-title = Dieser Link gilt nicht mehr
take-failed-lead = Er wurde schon benutzt oder ist zu alt. Erstellen Sie einen neuen auf dem Gerät, das Ihren Platz hat.
