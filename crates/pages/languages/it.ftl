# Italian (tu, as most shops write). What each message is for is said in en.ftl.

language-name = Italiano

waiting-title = Sei in coda
waiting-lead = In questo momento vogliono entrare in tanti. Il tuo posto resta tuo, anche se chiudi questa pagina.
standstill-title = La coda è in pausa
standstill-lead = Al momento non entra nessuno. Il tuo posto è al sicuro.
near-title = Ci sei quasi
near-lead = Resta nei paraggi: tra poco tocca a te.
turn-title = Tocca a te
turn-lead = Ora puoi entrare.
turn-lead-auto = Ti stiamo facendo entrare.
turn-remaining = { $count ->
    [one] Il tuo posto è riservato ancora per { $n } secondo.
   *[other] Il tuo posto è riservato ancora per { $n } secondi.
}
turn-remaining-minutes = { $count ->
    [one] Il tuo posto è riservato ancora per { $n } minuto.
   *[other] Il tuo posto è riservato ancora per { $n } minuti.
}
arriving-title = Stai entrando in coda
arriving-lead = Un attimo, ti stiamo assegnando un posto.
arriving-cookies = Non succede nulla? Il tuo browser deve accettare i cookie, così possiamo tenerti il posto.
many-arriving-title = Stanno arrivando molte persone
many-arriving-lead = Un momento: vogliono mettersi in fila più persone di quante se ne possano accogliere insieme. Questa pagina riprova da sola.
cookies-needed-title = Servono i cookie
cookies-needed-lead = Il tuo browser non ha conservato il nostro cookie, quindi non possiamo tenerti il posto. Consenti i cookie per questo sito, poi controlla di nuovo.
held-title = Il tuo posto è al sicuro
held-lead = La coda è ferma per un momento a causa di un guasto da parte nostra. Questa pagina riprende da sola.
held-new-title = Un attimo, per favore
held-new-lead = Al momento la coda non è raggiungibile. Questa pagina riprova da sola.
gone-title = Il tuo turno è passato
gone-lead = Il tempo per entrare è scaduto, oppure hai lasciato la coda. Puoi prendere un nuovo posto in fondo.
left-title = Hai lasciato la coda
left-lead = Il tuo posto è passato alla persona successiva. Puoi tornare quando vuoi, in fondo alla coda.
moved-title = Il tuo posto è stato spostato
moved-lead = Lo hai portato su un altro dispositivo o browser. Continua da lì.
closed-title = Chiuso
closed-lead = Non entra più nessuno e non si assegnano nuovi posti.
away-title = Non adesso
away-lead = Al momento questo sito non fa entrare nessuno. Torna più tardi, per favore.
limited-title = Troppe richieste
limited-lead = Dal tuo dispositivo o dalla tua rete sono arrivate più richieste di quante questo sito ne consenta. Aspetta un attimo, poi continua.
outside-title = Non hai ancora accesso
outside-lead = Apri il sito per prendere un posto in coda.
not-done-title = L’operazione non è stata eseguita
not-done-lead = Non hai ancora accesso, quindi al sito non è stato inviato nulla. Apri il sito per prendere un posto in coda e riprova una volta dentro.
unknown-site-title = Sito sconosciuto
unknown-site-lead = Qui non c’è nessun sito con questo nome.
failed-title = Il sito non risponde
failed-lead = Non dipende da te. Riprova tra un attimo, per favore.
refused-title = Non ha funzionato
refused-lead = Torna indietro e riprova, per favore.
inside-title = Ora hai accesso
inside-lead = Puoi chiudere questa pagina.
handoff-title = Ora hai accesso
handoff-lead = Ti stiamo portando sul sito.
confirm-title = Conferma, per favore
confirm-lead = Hai già accesso. Il sito chiede una conferma prima di continuare.
elsewhere-title = Il tuo posto ora è su questo dispositivo
elsewhere-lead = Apri il sito su questo dispositivo e accedi lì. Il tuo posto in coda resta tuo.
for-site = Da qui proseguirai verso { $site }.

people-ahead = Persone davanti a te
people-ahead-of-you = { $count ->
    [0] Il prossimo turno è il tuo
    [one] { $n } persona davanti a te
   *[other] { $n } persone davanti a te
}
your-number = Il tuo numero in coda
estimated-wait = Attesa stimata
wait-unknown = Non ancora nota
wait-less-than-a-minute = Meno di un minuto
wait-minutes = { $count ->
    [one] Circa { $n } minuto
   *[other] Circa { $n } minuti
}
wait-hours = { $count ->
    [one] Circa { $n } ora
   *[other] Circa { $n } ore
}
progress-since-joining = Quanto è avanzata la coda da quando sei qui
updated-at = Aggiornato: { $time }
connection-lost = Nessuna connessione. Il tuo posto è al sicuro; questa pagina riprova da sola.
what-happens = Quando tocca a te, questa pagina ti fa entrare da sola.
what-happens-button = Quando tocca a te, qui compare un pulsante. Da quel momento il posto ti resta riservato per un po’.
keep-open = Quando il tuo turno si avvicina, tieni aperta questa pagina: i posti vanno a chi è presente.
keep-cookies = Questo browser conserva il tuo posto. Non cancellare i suoi cookie.
refresh-by-itself = { $count ->
    [one] Questa pagina si aggiorna da sola dopo { $n } secondo.
   *[other] Questa pagina si aggiorna da sola ogni { $n } secondi.
}
notice-from-operator = Avviso

cues = Quando tocca a te
cue-sound = Riproduci un suono
cue-notification = Mostra una notifica
cue-notification-blocked = Le notifiche sono bloccate in questo browser

enter-button = Entra ora
continue-button = Continua
ask-again = Controlla ora
join-button = Prendi un nuovo posto in coda
home-button = Torna al sito
leave-button = Lascia la coda
leave-question = Vuoi rinunciare al tuo posto? Passerà alla persona successiva e non potrai riaverlo.
leave-confirm = Sì, lascia la coda
move-button = Continua su un altro dispositivo
move-title = Porta il tuo posto su un altro dispositivo
move-lead = Apri questo link sull’altro dispositivo. Il tuo posto si sposta lì e questa pagina non serve più.
move-qr-text = Codice QR del link
move-expires = { $count ->
    [one] Il link vale per { $n } minuto, una sola volta.
   *[other] Il link vale per { $n } minuti, una sola volta.
}
move-copy = Copia il link
move-copied = Copiato
move-close = Chiudi
take-title = Continua qui con il tuo posto
take-lead = Il tuo posto in coda passa a questo browser. L’altro dispositivo non lo avrà più.
take-instead = Così rinunci al posto che questo browser conserva adesso.
take-button = Porta qui il mio posto
take-failed-title = Questo link non funziona più
take-failed-lead = È già stato usato o è troppo vecchio. Creane uno nuovo sul dispositivo che ha il tuo posto.
