# Portuguese, for Brazil and Portugal alike: no "você" or "tu", no gerund or "a + infinitive", no word that only one of them uses.
# What each message is for is said in en.ftl.

language-name = Português

waiting-title = Está na fila
waiting-lead = Muitas pessoas querem entrar neste momento. O seu lugar fica guardado, mesmo que feche esta página.
standstill-title = A fila está em pausa
standstill-lead = Neste momento não entra ninguém. O seu lugar está seguro.
near-title = Falta pouco
near-lead = Fique por perto: em breve será a sua vez.
turn-title = É a sua vez
turn-lead = Já pode entrar.
turn-lead-auto = A entrada já vai abrir.
turn-remaining = { $count ->
    [one] O seu lugar fica reservado por mais { $n } segundo.
   *[other] O seu lugar fica reservado por mais { $n } segundos.
}
turn-remaining-minutes = { $count ->
    [one] O seu lugar fica reservado por mais { $n } minuto.
   *[other] O seu lugar fica reservado por mais { $n } minutos.
}
arriving-title = Entrada na fila
arriving-lead = Um momento, o seu lugar já vai ser reservado.
arriving-cookies = Não acontece nada? O navegador deve aceitar cookies para podermos guardar o seu lugar.
many-arriving-title = Muitas pessoas estão a chegar
many-arriving-lead = Um momento: há mais pessoas a querer entrar na fila do que as que cabem de uma vez. Esta página tenta de novo sozinha.
cookies-needed-title = São necessários cookies
cookies-needed-lead = O navegador não guardou o nosso cookie, por isso não podemos guardar um lugar. Permita cookies para este site e verifique de novo.
held-title = O seu lugar está seguro
held-lead = A fila parou por um momento devido a uma falha do nosso lado. Esta página continua sozinha.
held-new-title = Um momento, por favor
held-new-lead = Neste momento não é possível chegar à fila. Esta página tenta de novo sozinha.
gone-title = A sua vez passou
gone-lead = O tempo para entrar terminou, ou saiu da fila. Pode ocupar um novo lugar no fim.
left-title = Saiu da fila
left-lead = O seu lugar passou para a pessoa seguinte. Pode voltar quando quiser, no fim da fila.
moved-title = O seu lugar foi transferido
moved-lead = Está agora em outro dispositivo ou navegador. Continue por lá.
closed-title = Fechado
closed-lead = Não entra mais ninguém e não há novos lugares.
away-title = Agora não
away-lead = Neste momento, este site não deixa entrar ninguém. Volte mais tarde, por favor.
limited-title = Muitos pedidos de uma vez
limited-lead = O seu dispositivo ou a sua rede fez mais pedidos do que este site permite. Espere um momento e depois continue.
outside-title = Ainda não tem acesso
outside-lead = Abra o site para ocupar um lugar na fila.
not-done-title = A operação não foi realizada
not-done-lead = Ainda não tem acesso, por isso nada foi enviado ao site. Abra o site para ocupar um lugar na fila e tente de novo depois de entrar.
unknown-site-title = Site desconhecido
unknown-site-lead = Não existe aqui nenhum site com este nome.
failed-title = O site não responde
failed-lead = O problema não é seu. Tente de novo daqui a pouco, por favor.
refused-title = Não funcionou
refused-lead = Volte à página anterior e tente de novo, por favor.
inside-title = Já tem acesso
inside-lead = Pode fechar esta página.
handoff-title = Já tem acesso
handoff-lead = O site abre dentro de instantes.
confirm-title = Confirme, por favor
confirm-lead = Já tem acesso. O site pede uma confirmação antes de continuar.
elsewhere-title = O seu lugar está agora neste dispositivo
elsewhere-lead = Abra o site neste dispositivo e inicie sessão nele. O seu lugar na fila fica guardado.
for-site = Daqui continua para { $site }.

people-ahead = Pessoas à sua frente
people-ahead-of-you = { $count ->
    [0] A próxima vez é a sua
    [one] { $n } pessoa à sua frente
   *[other] { $n } pessoas à sua frente
}
your-number = O seu número na fila
estimated-wait = Espera estimada
wait-unknown = Ainda não se sabe
wait-less-than-a-minute = Menos de um minuto
wait-minutes = { $count ->
    [one] Cerca de { $n } minuto
   *[other] Cerca de { $n } minutos
}
wait-hours = { $count ->
    [one] Cerca de { $n } hora
   *[other] Cerca de { $n } horas
}
progress-since-joining = Quanto a fila avançou desde a sua chegada
updated-at = Atualizado: { $time }
connection-lost = Sem conexão. O seu lugar está seguro; esta página tenta de novo sozinha.
what-happens = Quando for a sua vez, esta página abre a entrada sozinha.
what-happens-button = Quando for a sua vez, aparece aqui um botão. O seu lugar fica então reservado por algum tempo.
keep-open = Quando a sua vez estiver próxima, deixe esta página aberta: os lugares são de quem estiver presente.
keep-cookies = Este navegador guarda o seu lugar. Não apague os cookies.
refresh-by-itself = { $count ->
    [one] Esta página é atualizada automaticamente a cada { $n } segundo.
   *[other] Esta página é atualizada automaticamente a cada { $n } segundos.
}
notice-from-operator = Aviso

cues = Quando for a sua vez
cue-sound = Tocar um som
cue-notification = Mostrar uma notificação
cue-notification-blocked = As notificações estão bloqueadas neste navegador

enter-button = Entrar agora
continue-button = Continuar
ask-again = Verificar agora
join-button = Ocupar um novo lugar na fila
home-button = Voltar ao site
leave-button = Sair da fila
leave-question = Quer desistir do seu lugar? Ele passa para a pessoa seguinte e não pode ser recuperado.
leave-confirm = Sim, sair da fila
move-button = Continuar em outro dispositivo
move-title = Leve o seu lugar para outro dispositivo
move-lead = Abra este link no outro dispositivo. O seu lugar passa para lá e esta página deixa de valer.
move-qr-text = Código QR do link
move-expires = { $count ->
    [one] O link funciona durante { $n } minuto, uma única vez.
   *[other] O link funciona durante { $n } minutos, uma única vez.
}
move-copy = Copiar o link
move-copied = Copiado
move-close = Fechar
take-title = Continue aqui com o seu lugar
take-lead = O seu lugar na fila passa para este navegador. O outro dispositivo deixa de ter o lugar.
take-instead = Com isso, renuncia ao lugar que este navegador tem agora.
take-button = Trazer o meu lugar para cá
take-failed-title = Este link já não funciona
take-failed-lead = Já foi usado ou é antigo demais. Crie um novo no dispositivo que tem o seu lugar.
