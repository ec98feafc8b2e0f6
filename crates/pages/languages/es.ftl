# Spanish (usted, for all countries; "fila" is understood in all of them). What each message is for is said in en.ftl.

language-name = Español

waiting-title = Está en la fila
waiting-lead = Muchas personas quieren entrar ahora mismo. Conservará su lugar aunque cierre esta página.
standstill-title = La fila está en pausa
standstill-lead = En este momento no entra nadie. Su lugar está seguro.
near-title = Ya falta poco
near-lead = No se aleje: pronto será su turno.
turn-title = Es su turno
turn-lead = Ya puede entrar.
turn-lead-auto = Le estamos dando acceso.
turn-remaining = { $count ->
    [one] Su lugar queda reservado { $n } segundo más.
   *[other] Su lugar queda reservado { $n } segundos más.
}
turn-remaining-minutes = { $count ->
    [one] Su lugar queda reservado { $n } minuto más.
   *[other] Su lugar queda reservado { $n } minutos más.
}
arriving-title = Está entrando en la fila
arriving-lead = Un momento, estamos reservando su lugar.
arriving-cookies = ¿No pasa nada? Su navegador debe aceptar cookies para que podamos guardar su lugar.
many-arriving-title = Está llegando mucha gente
many-arriving-lead = Un momento: quieren unirse a la fila más personas de las que caben a la vez. Esta página lo intenta de nuevo por sí sola.
cookies-needed-title = Se necesitan cookies
cookies-needed-lead = Su navegador no ha guardado nuestra cookie, así que no podemos guardar su lugar. Permita las cookies de este sitio y compruebe de nuevo.
held-title = Su lugar está seguro
held-lead = La fila se ha detenido un momento por un fallo nuestro. Esta página continuará por sí sola.
held-new-title = Un momento, por favor
held-new-lead = Ahora mismo no se puede acceder a la fila. Esta página lo intenta de nuevo por sí sola.
gone-title = Su turno ha pasado
gone-lead = El tiempo para entrar terminó, o usted salió de la fila. Puede tomar un nuevo lugar al final.
left-title = Ha salido de la fila
left-lead = Su lugar ha pasado a la siguiente persona. Puede volver cuando quiera, al final de la fila.
moved-title = Su lugar se ha trasladado
moved-lead = Lo llevó a otro dispositivo o navegador. Continúe allí.
closed-title = Cerrado
closed-lead = Ya no entra nadie más ni se dan nuevos lugares.
away-title = Ahora no
away-lead = Este sitio no admite a nadie en este momento. Vuelva más tarde, por favor.
limited-title = Demasiadas solicitudes
limited-lead = Desde su dispositivo o su red llegaron más solicitudes de las que permite este sitio. Espere un momento y continúe.
outside-title = Todavía no tiene acceso
outside-lead = Abra el sitio para tomar un lugar en la fila.
not-done-title = La operación no se realizó
not-done-lead = Todavía no tiene acceso, así que no se envió nada al sitio. Abra el sitio para tomar un lugar en la fila e inténtelo de nuevo cuando haya entrado.
unknown-site-title = Sitio desconocido
unknown-site-lead = Aquí no hay ningún sitio con este nombre.
failed-title = El sitio no responde
failed-lead = No es culpa suya. Inténtelo de nuevo en un momento, por favor.
refused-title = No ha funcionado
refused-lead = Vuelva atrás e inténtelo de nuevo, por favor.
inside-title = Ya tiene acceso
inside-lead = Puede cerrar esta página.
handoff-title = Ya tiene acceso
handoff-lead = Le estamos llevando al sitio.
confirm-title = Confirme, por favor
confirm-lead = Ya tiene acceso. El sitio pide una confirmación antes de continuar.
elsewhere-title = Su lugar está ahora en este dispositivo
elsewhere-lead = Abra el sitio en este dispositivo e inicie sesión allí. Conserva su lugar en la fila.
for-site = Desde aquí continuará a { $site }.

people-ahead = Personas delante de usted
people-ahead-of-you = { $count ->
    [0] El siguiente turno es el suyo
    [one] { $n } persona delante de usted
   *[other] { $n } personas delante de usted
}
your-number = Su número en la fila
estimated-wait = Espera estimada
wait-unknown = Aún no se sabe
wait-less-than-a-minute = Menos de un minuto
wait-minutes = { $count ->
    [one] Alrededor de { $n } minuto
   *[other] Alrededor de { $n } minutos
}
wait-hours = { $count ->
    [one] Alrededor de { $n } hora
   *[other] Alrededor de { $n } horas
}
progress-since-joining = Cuánto ha avanzado la fila desde que llegó
updated-at = Actualizado: { $time }
connection-lost = Sin conexión. Su lugar está seguro; esta página lo intenta de nuevo por sí sola.
what-happens = Cuando sea su turno, esta página le dará acceso por sí sola.
what-happens-button = Cuando sea su turno, aparecerá aquí un botón. Su lugar quedará reservado un rato.
keep-open = Cuando se acerque su turno, deje esta página abierta: los lugares se dan a quienes estén presentes.
keep-cookies = Este navegador guarda su lugar. No borre sus cookies.
refresh-by-itself = { $count ->
    [one] Esta página se actualiza por sí sola cada { $n } segundo.
   *[other] Esta página se actualiza por sí sola cada { $n } segundos.
}
notice-from-operator = Aviso

cues = Cuando sea su turno
cue-sound = Reproducir un sonido
cue-notification = Mostrar una notificación
cue-notification-blocked = Las notificaciones están bloqueadas en este navegador

enter-button = Entrar ahora
continue-button = Continuar
ask-again = Comprobar ahora
join-button = Tomar un nuevo lugar en la fila
home-button = Volver al sitio
leave-button = Salir de la fila
leave-question = ¿Quiere ceder su lugar? Pasará a la siguiente persona y no podrá recuperarlo.
leave-confirm = Sí, salir de la fila
move-button = Continuar en otro dispositivo
move-title = Lleve su lugar a otro dispositivo
move-lead = Abra este enlace en el otro dispositivo. Su lugar pasará allí y esta página dejará de funcionar.
move-qr-text = Código QR del enlace
move-expires = { $count ->
    [one] El enlace funciona durante { $n } minuto, una sola vez.
   *[other] El enlace funciona durante { $n } minutos, una sola vez.
}
move-copy = Copiar el enlace
move-copied = Copiado
move-close = Cerrar
take-title = Continúe aquí con su lugar
take-lead = Su lugar en la fila pasa a este navegador. El otro dispositivo dejará de tenerlo.
take-instead = Con ello renuncia al lugar que este navegador tiene ahora.
take-button = Traer mi lugar aquí
take-failed-title = Este enlace ya no funciona
take-failed-lead = Ya se utilizó o es demasiado antiguo. Cree uno nuevo en el dispositivo que tiene su lugar.
