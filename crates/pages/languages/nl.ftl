# Dutch (u). What each message is for is said in en.ftl.

language-name = Nederlands

waiting-title = U staat in de wachtrij
waiting-lead = Er willen nu veel mensen naar binnen. U houdt uw plaats, ook als u deze pagina sluit.
standstill-title = De wachtrij is gepauzeerd
standstill-lead = Er wordt nu even niemand binnengelaten. Uw plaats is veilig.
near-title = U bent er bijna
near-lead = Blijf in de buurt: u bent zo aan de beurt.
turn-title = U bent aan de beurt
turn-lead = U kunt nu naar binnen.
turn-lead-auto = U wordt binnengelaten.
turn-remaining = { $count ->
    [one] Uw plaats blijft nog { $n } seconde voor u vrij.
   *[other] Uw plaats blijft nog { $n } seconden voor u vrij.
}
turn-remaining-minutes = { $count ->
    [one] Uw plaats blijft nog { $n } minuut voor u vrij.
   *[other] Uw plaats blijft nog { $n } minuten voor u vrij.
}
arriving-title = U sluit aan in de wachtrij
arriving-lead = Een ogenblik, we houden een plaats voor u vrij.
arriving-cookies = Gebeurt er niets? Uw browser moet cookies accepteren, zodat we uw plaats kunnen bewaren.
many-arriving-title = Er komen veel mensen aan
many-arriving-lead = Een ogenblik: er willen meer mensen in de rij dan er tegelijk bij kunnen. Deze pagina probeert het vanzelf opnieuw.
cookies-needed-title = Cookies zijn nodig
cookies-needed-lead = Uw browser heeft onze cookie niet bewaard, dus we kunnen geen plaats voor u bewaren. Sta cookies toe voor deze site en kijk dan opnieuw.
held-title = Uw plaats is veilig
held-lead = De wachtrij staat even stil door een storing aan onze kant. Deze pagina gaat vanzelf verder.
held-new-title = Een ogenblik geduld
held-new-lead = De wachtrij is nu even niet bereikbaar. Deze pagina probeert het vanzelf opnieuw.
gone-title = Uw beurt is voorbij
gone-lead = De tijd om naar binnen te gaan is verstreken, of u hebt de wachtrij verlaten. U kunt achteraan opnieuw aansluiten.
left-title = U hebt de wachtrij verlaten
left-lead = Uw plaats is naar de volgende gegaan. U kunt altijd terugkomen en achteraan aansluiten.
moved-title = Uw plaats is verhuisd
moved-lead = U hebt uw plaats meegenomen naar een ander apparaat of een andere browser. Ga daar verder.
closed-title = Gesloten
closed-lead = Er wordt niemand meer binnengelaten en er komen geen nieuwe plaatsen bij.
away-title = Nu even niet
away-lead = Deze site laat op dit moment niemand binnen. Kom later terug.
limited-title = Te veel verzoeken
limited-lead = Uw apparaat of netwerk heeft meer verzoeken gestuurd dan deze site toelaat. Wacht even en ga dan verder.
outside-title = U bent nog niet binnen
outside-lead = Open de site om in de wachtrij aan te sluiten.
not-done-title = Dit is niet uitgevoerd
not-done-lead = U bent nog niet binnen, dus er is niets naar de site gestuurd. Open de site om in de wachtrij aan te sluiten en probeer het opnieuw als u binnen bent.
unknown-site-title = Onbekende site
unknown-site-lead = Er is hier geen site met deze naam.
failed-title = De site reageert niet
failed-lead = Het ligt niet aan u. Probeer het zo dadelijk opnieuw.
refused-title = Dit is niet gelukt
refused-lead = Ga terug en probeer het opnieuw.
inside-title = U bent binnen
inside-lead = U kunt deze pagina sluiten.
handoff-title = U bent binnen
handoff-lead = U wordt naar de site gebracht.
confirm-title = Bevestig dit
confirm-lead = U bent al binnen. De site vraagt om een bevestiging voordat u verdergaat.
elsewhere-title = Uw plaats is nu op dit apparaat
elsewhere-lead = Open de site op dit apparaat en log daar in. U houdt uw plaats in de wachtrij.
for-site = Hierna gaat u verder naar { $site }.

people-ahead = Mensen voor u
people-ahead-of-you = { $count ->
    [0] U bent als volgende aan de beurt
    [one] { $n } persoon voor u
   *[other] { $n } mensen voor u
}
your-number = Uw nummer in de wachtrij
estimated-wait = Geschatte wachttijd
wait-unknown = Nog niet bekend
wait-less-than-a-minute = Minder dan een minuut
wait-minutes = { $count ->
    [one] Ongeveer { $n } minuut
   *[other] Ongeveer { $n } minuten
}
wait-hours = { $count ->
    [one] Ongeveer { $n } uur
   *[other] Ongeveer { $n } uur
}
progress-since-joining = Hoe ver de wachtrij is opgeschoven sinds u aansloot
updated-at = Bijgewerkt om { $time }
connection-lost = Geen verbinding. Uw plaats is veilig; deze pagina probeert het vanzelf opnieuw.
what-happens = Als u aan de beurt bent, laat deze pagina u vanzelf binnen.
what-happens-button = Als u aan de beurt bent, verschijnt hier een knop. Uw plaats blijft dan een tijdje voor u vrij.
keep-open = Houd deze pagina open als u bijna aan de beurt bent: de plaatsen gaan naar wie er dan is.
keep-cookies = Deze browser bewaart uw plaats. Verwijder de cookies niet.
refresh-by-itself = { $count ->
    [one] Deze pagina wordt elke { $n } seconde vanzelf bijgewerkt.
   *[other] Deze pagina wordt elke { $n } seconden vanzelf bijgewerkt.
}
notice-from-operator = Mededeling

cues = Als u aan de beurt bent
cue-sound = Geluid afspelen
cue-notification = Melding tonen
cue-notification-blocked = Meldingen zijn geblokkeerd in deze browser

enter-button = Nu naar binnen
continue-button = Doorgaan
ask-again = Nu opnieuw kijken
join-button = Opnieuw aansluiten
home-button = Terug naar de site
leave-button = Wachtrij verlaten
leave-question = Wilt u uw plaats opgeven? Die gaat naar de volgende in de rij en u krijgt hem niet terug.
leave-confirm = Ja, wachtrij verlaten
move-button = Verder op een ander apparaat
move-title = Neem uw plaats mee naar een ander apparaat
move-lead = Open deze link op het andere apparaat. Uw plaats verhuist dan daarheen en deze pagina stopt.
move-qr-text = QR-code van de link
move-expires = { $count ->
    [one] De link werkt { $n } minuut, één keer.
   *[other] De link werkt { $n } minuten, één keer.
}
move-copy = Link kopiëren
move-copied = Gekopieerd
move-close = Sluiten
take-title = Ga hier verder met uw plaats
take-lead = Uw plaats in de wachtrij verhuist naar deze browser. Op het andere apparaat vervalt uw plaats.
take-instead = De plaats die deze browser nu heeft, geeft u daarmee op.
take-button = Mijn plaats hierheen halen
take-failed-title = Deze link werkt niet meer
take-failed-lead = De link is al gebruikt of is te oud. Maak een nieuwe op het apparaat dat uw plaats heeft.
