# French (vous). What each message is for is said in en.ftl. The space before a question mark is a no-break space.

language-name = Français

waiting-title = Vous êtes dans la file d’attente
waiting-lead = Beaucoup de monde souhaite entrer en ce moment. Vous gardez votre place, même si vous fermez cette page.
standstill-title = La file d’attente est en pause
standstill-lead = Personne n’entre pour le moment. Votre place est conservée.
near-title = Vous y êtes presque
near-lead = Restez à proximité, ce sera bientôt votre tour.
turn-title = C’est votre tour
turn-lead = Vous pouvez entrer maintenant.
turn-lead-auto = Nous vous faisons entrer.
turn-remaining = { $count ->
    [one] Votre place vous est réservée encore { $n } seconde.
   *[other] Votre place vous est réservée encore { $n } secondes.
}
turn-remaining-minutes = { $count ->
    [one] Votre place vous est réservée encore { $n } minute.
   *[other] Votre place vous est réservée encore { $n } minutes.
}
arriving-title = Vous entrez dans la file d’attente
arriving-lead = Un instant, nous vous attribuons une place.
arriving-cookies = Il ne se passe rien ? Votre navigateur doit accepter les cookies pour que nous puissions garder votre place.
many-arriving-title = Beaucoup de personnes arrivent
many-arriving-lead = Un instant : plus de personnes veulent rejoindre la file qu’elle ne peut en accueillir à la fois. Cette page réessaie d’elle-même.
cookies-needed-title = Les cookies sont nécessaires
cookies-needed-lead = Votre navigateur n’a pas gardé notre cookie, nous ne pouvons donc pas vous garder de place. Autorisez les cookies pour ce site, puis vérifiez à nouveau.
held-title = Votre place est conservée
held-lead = La file d’attente est arrêtée un moment à cause d’un incident de notre côté. Cette page reprendra d’elle-même.
held-new-title = Un instant, s’il vous plaît
held-new-lead = La file d’attente est momentanément inaccessible. Cette page réessaie d’elle-même.
gone-title = Votre tour est passé
gone-lead = Le délai pour entrer est écoulé, ou vous avez quitté la file. Vous pouvez reprendre une place à la fin de la file.
left-title = Vous avez quitté la file d’attente
left-lead = Votre place est allée à la personne suivante. Vous pouvez revenir à tout moment, à la fin de la file.
moved-title = Votre place a été transférée
moved-lead = Vous l’avez transférée vers un autre appareil ou navigateur. Continuez là-bas.
closed-title = Fermé
closed-lead = Plus personne ne peut entrer, et aucune nouvelle place n’est attribuée.
away-title = Pas pour le moment
away-lead = Ce site ne laisse entrer personne actuellement. Merci de revenir plus tard.
limited-title = Trop de demandes
limited-lead = Votre appareil ou votre réseau a envoyé plus de demandes que ce site n’en accepte. Patientez un instant, puis continuez.
outside-title = Vous n’avez pas encore accès au site
outside-lead = Ouvrez le site pour prendre place dans la file d’attente.
not-done-title = L’opération n’a pas été effectuée
not-done-lead = Vous n’avez pas encore accès au site, rien ne lui a donc été envoyé. Ouvrez le site pour prendre place dans la file d’attente, puis réessayez une fois à l’intérieur.
unknown-site-title = Site inconnu
unknown-site-lead = Aucun site ne porte ce nom ici.
failed-title = Le site ne répond pas
failed-lead = Vous n’y êtes pour rien. Merci de réessayer dans un instant.
refused-title = Cela n’a pas fonctionné
refused-lead = Merci de revenir en arrière et de réessayer.
inside-title = Vous avez accès au site
inside-lead = Vous pouvez fermer cette page.
handoff-title = Vous avez accès au site
handoff-lead = Nous vous y conduisons.
confirm-title = Merci de confirmer
confirm-lead = Vous avez déjà accès au site. Il demande une confirmation avant de continuer.
elsewhere-title = Votre place est maintenant sur cet appareil
elsewhere-lead = Ouvrez le site sur cet appareil et connectez-vous. Vous gardez votre place dans la file.
for-site = Vous continuerez ensuite vers { $site }.

people-ahead = Personnes devant vous
people-ahead-of-you = { $count ->
    [0] Vous êtes en tête de la file
    [one] { $n } personne devant vous
   *[other] { $n } personnes devant vous
}
your-number = Votre numéro dans la file
estimated-wait = Temps d’attente estimé
wait-unknown = Pas encore connu
wait-less-than-a-minute = Moins d’une minute
wait-minutes = { $count ->
    [one] Environ { $n } minute
   *[other] Environ { $n } minutes
}
wait-hours = { $count ->
    [one] Environ { $n } heure
   *[other] Environ { $n } heures
}
progress-since-joining = Avancée de la file depuis votre arrivée
updated-at = Mis à jour à { $time }
connection-lost = Pas de connexion. Votre place est conservée, cette page réessaie d’elle-même.
what-happens = Quand ce sera votre tour, cette page vous fera entrer automatiquement.
what-happens-button = Quand ce sera votre tour, un bouton apparaîtra ici. Votre place vous sera alors réservée un moment.
keep-open = Quand votre tour approche, gardez cette page ouverte, car les places vont aux personnes présentes.
keep-cookies = Ce navigateur garde votre place. Conservez ses cookies.
refresh-by-itself = { $count ->
    [one] Cette page s’actualise automatiquement après { $n } seconde.
   *[other] Cette page s’actualise automatiquement toutes les { $n } secondes.
}
notice-from-operator = À savoir

cues = Quand ce sera votre tour
cue-sound = Jouer un son
cue-notification = Afficher une notification
cue-notification-blocked = Les notifications sont bloquées dans ce navigateur

enter-button = Entrer maintenant
continue-button = Continuer
ask-again = Vérifier maintenant
join-button = Reprendre une place dans la file
home-button = Retour au site
leave-button = Quitter la file d’attente
leave-question = Abandonner votre place ? Elle ira à la personne suivante et vous ne pourrez pas la récupérer.
leave-confirm = Oui, quitter la file d’attente
move-button = Continuer sur un autre appareil
move-title = Transférer votre place vers un autre appareil
move-lead = Ouvrez ce lien sur l’autre appareil. Votre place y sera transférée et cette page prendra fin.
move-qr-text = Code QR du lien
move-expires = { $count ->
    [one] Le lien est valable { $n } minute, une seule fois.
   *[other] Le lien est valable { $n } minutes, une seule fois.
}
move-copy = Copier le lien
move-copied = Copié
move-close = Fermer
take-title = Continuer ici avec votre place
take-lead = Votre place dans la file d’attente passe à ce navigateur. L’autre appareil ne l’aura plus.
take-instead = Vous renoncez ainsi à la place que ce navigateur garde en ce moment.
take-button = Reprendre ma place ici
take-failed-title = Ce lien ne fonctionne plus
take-failed-lead = Il a déjà été utilisé ou il est trop ancien. Créez-en un nouveau sur l’appareil qui a votre place.
